// Dynamic resources of a cluster: claims, slices, classes and taint rules. Unlike
// other plugins, DynamicResources keeps indexes of its own that events feed, so
// these are fed here.

package main

import (
	"context"
	"errors"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

// newDevices returns the manager that the plugin gets all device objects from.
func newDevices(ctx context.Context, client kubernetes.Interface, factory informers.SharedInformerFactory, objects []runtime.Object) (*dynamicresources.DefaultDRAManager, error) {
	slices, err := newSlices(ctx, client, factory, objects)
	if err != nil {
		return nil, err
	}
	events := &eventSource{}
	claims := assumecache.NewAssumeCache(klog.Background(), events, "ResourceClaim", "", nil)
	manager := dynamicresources.NewDRAManager(ctx, claims, slices, factory)
	for _, claim := range only[*resourcev1.ResourceClaim](objects) {
		events.handler.OnAdd(claim, true)
	}
	if classes, ok := manager.DeviceClassResolver().(cache.ResourceEventHandler); ok && enabled(features.DRAExtendedResource) {
		for _, class := range only[*resourcev1.DeviceClass](objects) {
			classes.OnAdd(class, true)
		}
	}
	return manager, nil
}

// newSlices returns the view on the slices. Without taint rules it is a plain
// lister; with rules it patches slices upon events, which takes real informers.
func newSlices(ctx context.Context, client kubernetes.Interface, factory informers.SharedInformerFactory, objects []runtime.Object) (*tracker.Tracker, error) {
	rules := only[*resourcev1.DeviceTaintRule](objects)
	if len(rules) == 0 || !enabled(features.DRADeviceTaintRules) {
		return tracker.StartTracker(ctx, tracker.Options{SliceInformer: factory.Resource().V1().ResourceSlices()})
	}
	served := append(only[*resourcev1.ResourceSlice](objects), rules...)
	live := informers.NewSharedInformerFactory(fake.NewClientset(served...), 0)
	slices, err := tracker.StartTracker(ctx, tracker.Options{
		EnableDeviceTaintRules:   true,
		EnableConsumableCapacity: enabled(features.DRAConsumableCapacity),
		SliceInformer:            live.Resource().V1().ResourceSlices(),
		TaintInformer:            live.Resource().V1().DeviceTaintRules(),
		KubeClient:               client,
	})
	if err != nil {
		return nil, err
	}
	live.Start(ctx.Done())
	select {
	case <-slices.HasSyncedChecker().Done():
		return slices, nil
	case <-ctx.Done():
		return nil, errors.New("device taint rules were not read in time")
	}
}

// eventSource stands in for an informer: it keeps the handler, for events made by hand.
type eventSource struct {
	handler cache.ResourceEventHandler
}

func (s *eventSource) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	s.handler = handler
	return nil, nil
}
