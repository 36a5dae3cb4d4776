// Request cases: what a pod asks for, as the plugins and the node's books count it.

package main

import (
	"context"
	"fmt"
	"reflect"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
)

// Requests is the result of a request case: cpu in millicores, the rest in units.
type Requests struct {
	ID           string           `json:"id"`
	Incoming     map[string]int64 `json:"incoming"`     // what Fit's Filter asks for
	Scored       map[string]int64 `json:"scored"`       // what Fit's Score adds
	Bound        map[string]int64 `json:"bound"`        // what a bound pod adds to its node
	BoundNonZero map[string]int64 `json:"boundNonZero"` // and to the node's non-zero amount
}

func (cl *cluster) requests(ctx context.Context, id string) (*Requests, error) {
	incoming, err := cl.incoming(ctx)
	if err != nil {
		return nil, err
	}
	scored, err := cl.scored(ctx)
	if err != nil {
		return nil, err
	}
	node := framework.NewNodeInfo()
	node.AddPod(cl.pod)
	return &Requests{
		ID:           id,
		Incoming:     incoming,
		Scored:       scored,
		Bound:        amounts(node.Requested),
		BoundNonZero: map[string]int64{"cpu": node.NonZeroRequested.MilliCPU, "memory": node.NonZeroRequested.Memory},
	}, nil
}

// incoming reads what Fit's PreFilter leaves for its Filter. The type of that
// state is private, the resources in it are an exported field.
func (cl *cluster) incoming(ctx context.Context) (map[string]int64, error) {
	state := framework.NewCycleState()
	plugin := cl.plugins[noderesources.Name].(fwk.PreFilterPlugin)
	if _, status := plugin.PreFilter(ctx, state, cl.pod, cl.nodes); !status.IsSuccess() {
		return nil, status.AsError()
	}
	left, err := state.Read("PreFilter" + noderesources.Name)
	if err != nil {
		return nil, err
	}
	resources, ok := reflect.ValueOf(left).Elem().FieldByName("Resource").Interface().(framework.Resource)
	if !ok {
		return nil, fmt.Errorf("no resources in a %T", left)
	}
	return amounts(&resources), nil
}

// scored reads what Fit's PreScore leaves for its Score: a list in the order of
// the scored resources, which are cpu and memory by default.
func (cl *cluster) scored(ctx context.Context) (map[string]int64, error) {
	state := framework.NewCycleState()
	plugin := cl.plugins[noderesources.Name].(fwk.PreScorePlugin)
	if status := plugin.PreScore(ctx, state, cl.pod, cl.nodes); !status.IsSuccess() {
		return nil, status.AsError()
	}
	left, err := state.Read("PreScore" + noderesources.Name)
	if err != nil {
		return nil, err
	}
	list := reflect.ValueOf(left).Elem().FieldByName("podRequests")
	if !list.IsValid() || list.Len() != 2 {
		return nil, fmt.Errorf("no requests of cpu and memory in a %T", left)
	}
	return map[string]int64{"cpu": list.Index(0).Int(), "memory": list.Index(1).Int()}, nil
}

func amounts(resource *framework.Resource) map[string]int64 {
	read := map[string]int64{
		string(v1.ResourceCPU):              resource.MilliCPU,
		string(v1.ResourceMemory):           resource.Memory,
		string(v1.ResourceEphemeralStorage): resource.EphemeralStorage,
	}
	for name, amount := range resource.ScalarResources {
		read[string(name)] = amount
	}
	return read
}
