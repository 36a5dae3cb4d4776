// Allocation cases: may these claims be allocated on this node, and with which
// devices? Answered by the real structured allocator, with the features that the
// scheduler's own gates give it, and without a pod.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
)

// patience is how long one allocation may take; the plugin's own is 10 seconds.
const patience = 10 * time.Second

// AllocationCase is one line of -allocate. Objects are whole manifests.
type AllocationCase struct {
	ID         string            `json:"id"`
	Node       json.RawMessage   `json:"node"`
	Slices     []json.RawMessage `json:"slices"`
	Classes    []json.RawMessage `json:"classes"`
	TaintRules []json.RawMessage `json:"taintRules"`
	Claims     []json.RawMessage `json:"claims"`
	Allocate   []string          `json:"allocate"` // "namespace/name"
	Gates      map[string]bool   `json:"gates"`
}

// Allocated is the answer. An error of kind "fatal" holds for every node, one of
// kind "node" for this one, and "gave-up" says that the time ran out.
type Allocated struct {
	ID          string                        `json:"id"`
	Feasible    bool                          `json:"feasible"`
	Allocations []resourcev1.AllocationResult `json:"allocations,omitempty"`
	Error       string                        `json:"error,omitempty"`
	ErrorKind   string                        `json:"errorKind,omitempty"`
}

// answerAllocation answers a line of -allocate.
func answerAllocation(line []byte) (id string, result any, err error) {
	var c AllocationCase
	if err := json.Unmarshal(line, &c); err != nil {
		return c.ID, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	err = withGates(c.Gates, func() (err error) {
		result, err = allocate(ctx, &c)
		return err
	})
	return c.ID, result, err
}

func allocate(ctx context.Context, c *AllocationCase) (*Allocated, error) {
	var objects []runtime.Object
	for _, part := range [][]json.RawMessage{c.Slices, c.Classes, c.TaintRules, c.Claims} {
		for _, raw := range part {
			object, err := decode(raw)
			if err != nil {
				return nil, err
			}
			objects = append(objects, object)
		}
	}
	read, err := decode(c.Node)
	if err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	node, ok := read.(*v1.Node)
	if !ok {
		return nil, fmt.Errorf("the node is a %T", read)
	}
	claims, err := wanted(objects, c.Allocate)
	if err != nil {
		return nil, err
	}
	allocator, err := newAllocator(ctx, objects)
	if err != nil {
		return nil, err
	}

	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found, err := allocator.Allocate(limited, node, claims)
	result := &Allocated{ID: c.ID, Feasible: err == nil && len(found) == len(claims)}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		result.ErrorKind = "gave-up"
	case errors.Is(err, structured.ErrFailedAllocationOnNode):
		result.ErrorKind = "node"
	case err != nil:
		result.ErrorKind = "fatal"
	case result.Feasible:
		result.Allocations = found
	}
	if err != nil {
		result.Error = err.Error()
	}
	return result, nil
}

// wanted returns the claims of these labels, in their order.
func wanted(objects []runtime.Object, labels []string) ([]*resourcev1.ResourceClaim, error) {
	byLabel := map[string]*resourcev1.ResourceClaim{}
	for _, object := range only[*resourcev1.ResourceClaim](objects) {
		claim := object.(*resourcev1.ResourceClaim)
		byLabel[claim.Namespace+"/"+claim.Name] = claim
	}
	var claims []*resourcev1.ResourceClaim
	for _, label := range labels {
		claim, ok := byLabel[label]
		if !ok || claim.Status.Allocation != nil {
			return nil, fmt.Errorf("there is no unallocated claim %q", label)
		}
		claims = append(claims, claim)
	}
	return claims, nil
}

// newAllocator does what PreFilter of DynamicResources does with the state of the cluster.
func newAllocator(ctx context.Context, objects []runtime.Object) (structured.Allocator, error) {
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	manager, err := newDevices(ctx, client, factory, objects)
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		if err := list(factory, object); err != nil {
			return nil, err
		}
	}
	slices, err := manager.ResourceSlices().ListWithDeviceTaintRules()
	if err != nil {
		return nil, err
	}
	state, err := manager.ResourceClaims().GatherAllocatedState()
	if err != nil {
		return nil, err
	}
	gates := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	expressions := cel.NewCache(10, cel.Features{
		EnableConsumableCapacity: gates.EnableDRAConsumableCapacity,
		EnableListTypeAttributes: gates.EnableDRAListTypeAttributes,
	})
	features := dynamicresources.AllocatorFeatures(gates)
	return structured.NewAllocator(ctx, features, *state, manager.DeviceClasses(), slices, expressions)
}
