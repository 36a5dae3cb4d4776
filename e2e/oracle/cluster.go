// The cluster of a case: what a running kube-scheduler would hold in memory, made
// without an API server and without starting informers. Plugins read listers, so
// filling the indexers behind them is enough.

package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// cluster is one case, ready for a scheduling cycle.
type cluster struct {
	pod       *v1.Pod
	nodes     []fwk.NodeInfo
	snapshot  *cache.Snapshot
	framework framework.Framework
	plugins   map[string]fwk.Plugin // the instances behind the framework
	weights   map[string]int64      // of the score plugins
	budgets   []*policyv1.PodDisruptionBudget
}

// newCluster builds the cluster of a case. Its goroutines end with ctx.
func newCluster(ctx context.Context, c *Case) (*cluster, error) {
	objects, err := readObjects(c)
	if err != nil {
		return nil, err
	}
	pod, err := decodePod(c.Pod)
	if err != nil {
		return nil, fmt.Errorf("pod: %w", err)
	}
	giveUID(pod)
	if pod.Namespace == "" {
		pod.Namespace = metav1.NamespaceDefault
	}

	// Claims are the only objects that a cycle writes: see PostFilter of DynamicResources.
	client := fake.NewClientset(only[*resourcev1.ResourceClaim](objects)...)
	factory := informers.NewSharedInformerFactory(client, 0)
	inOrder(factory)
	devices, err := newDevices(ctx, client, factory, objects)
	if err != nil {
		return nil, err
	}
	nodeCache := cache.New(ctx, nil, enabled(features.GenericWorkload), enabled(features.CompositePodGroup))
	cl := &cluster{pod: pod, snapshot: cache.NewEmptySnapshot(), plugins: map[string]fwk.Plugin{}}
	profile, err := readProfile(c.PluginConfig)
	if err != nil {
		return nil, fmt.Errorf("pluginConfig: %w", err)
	}

	cl.framework, err = frameworkruntime.NewFramework(ctx, cl.registry(), profile,
		frameworkruntime.WithClientSet(client),
		frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSharedDRAManager(devices),
		frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())),
		frameworkruntime.WithSnapshotSharedLister(cl.snapshot),
		frameworkruntime.WithMutableSnapshotLister(cl.snapshot),
		frameworkruntime.WithPodGroupManager(nodeCache),
		frameworkruntime.WithParallelism(1),
		frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()),
		frameworkruntime.WithPodsInPreBind(frameworkruntime.NewPodsInPreBindMap()),
	)
	if err != nil {
		return nil, err
	}
	cl.weights = scoreWeights(cl.framework)
	pending := queue.NewSchedulingQueue(cl.framework.QueueSortFunc(), factory,
		queue.WithPodLister(factory.Core().V1().Pods().Lister()))
	cl.framework.SetPodNominator(pending)
	cl.framework.SetPodActivator(pending)

	if err := list(factory, pod); err != nil {
		return nil, err
	}
	for _, object := range objects {
		if err := list(factory, object); err != nil {
			return nil, err
		}
		if err := observe(ctx, nodeCache, pending, object); err != nil {
			return nil, err
		}
		if budget, ok := object.(*policyv1.PodDisruptionBudget); ok {
			cl.budgets = append(cl.budgets, budget)
		}
	}
	if err := nodeCache.UpdateSnapshot(klog.Background(), cl.snapshot); err != nil {
		return nil, err
	}
	cl.nodes, err = cl.snapshot.ListNodesInPlacement()
	return cl, err
}

// readObjects decodes the objects of a case, without pods that have ended: the
// scheduler's informer does not show them.
func readObjects(c *Case) ([]runtime.Object, error) {
	if c.Objects == nil {
		return nil, nil
	}
	objects := make([]runtime.Object, 0, len(*c.Objects))
	for i, raw := range *c.Objects {
		object, err := decode(raw)
		if err != nil {
			return nil, fmt.Errorf("objects[%d]: %w", i, err)
		}
		if pod, ok := object.(*v1.Pod); ok {
			if pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
				continue
			}
			giveUID(pod)
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// giveUID names a pod without a uid by its name: the scheduler's cache needs one.
func giveUID(pod *v1.Pod) {
	if pod.UID == "" {
		pod.UID = types.UID(pod.Namespace + "/" + pod.Name)
	}
}

// enabled tells whether a feature gate is on, for the case at hand.
func enabled(gate featuregate.Feature) bool { return utilfeature.DefaultFeatureGate.Enabled(gate) }

// only returns the objects of one type.
func only[T runtime.Object](objects []runtime.Object) []runtime.Object {
	var found []runtime.Object
	for _, object := range objects {
		if _, ok := object.(T); ok {
			found = append(found, object)
		}
	}
	return found
}

// list puts an object where the listers of its kind find it.
func list(factory informers.SharedInformerFactory, object runtime.Object) error {
	kinds, _, err := scheme.Scheme.ObjectKinds(object)
	if err != nil {
		return err
	}
	resource, _ := meta.UnsafeGuessKindToResource(kinds[0])
	informer, err := factory.ForResource(resource)
	if err != nil {
		return err
	}
	return informer.Informer().GetIndexer().Add(object)
}

// observe does what the scheduler's event handlers do with a new object.
func observe(ctx context.Context, nodeCache cache.Cache, pending queue.SchedulingQueue, object runtime.Object) error {
	switch o := object.(type) {
	case *v1.Node:
		nodeCache.AddNode(klog.Background(), o)
	case *v1.Pod:
		if o.Spec.NodeName != "" {
			return nodeCache.AddPod(klog.Background(), o)
		}
		if o.Status.NominatedNodeName != "" {
			pending.Add(ctx, o)
		}
	}
	return nil
}

// registry is the in-tree registry that also remembers each plugin it makes.
func (cl *cluster) registry() frameworkruntime.Registry {
	registry := plugins.NewInTreeRegistry()
	for name, factory := range registry {
		registry[name] = func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
			plugin, err := factory(ctx, args, handle)
			if err == nil {
				cl.plugins[name] = plugin
			}
			return plugin, err
		}
	}
	return registry
}
