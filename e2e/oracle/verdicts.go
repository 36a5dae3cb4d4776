// One scheduling cycle: what each plugin says alone, and what the scheduler says.

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// schedule answers a case.
func schedule(c *Case) (result any, err error) {
	gatesErr := withGates(c.Gates, func() error {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		cl, err := newCluster(ctx, c)
		if err != nil {
			return err
		}
		if c.Objects == nil {
			result, err = cl.requests(ctx, c.ID)
			return err
		}
		result = cl.cycle(ctx, c.ID)
		return nil
	})
	return result, gatesErr
}

// cycle runs a scheduling cycle of the pending pod up to the choice of a node.
func (cl *cluster) cycle(ctx context.Context, id string) *Result {
	result := &Result{ID: id}
	cl.alone(ctx, result)
	if len(cl.nodes) == 0 {
		result.Feasible = &[]string{}
		result.FitError = scheduler.ErrNoNodesAvailable.Error()
		return result
	}
	state := framework.NewCycleState()
	feasible, diagnosis, err := cl.findNodes(ctx, state, result)
	switch {
	case err != nil:
	case len(feasible) > 0:
		err = cl.score(ctx, state, feasible, result)
	default:
		err = cl.preempt(ctx, state, diagnosis, result)
	}
	if err != nil {
		result.Error = err.Error()
	}
	return result
}

// alone runs every PreFilter and then every Filter by itself, without nominated pods.
func (cl *cluster) alone(ctx context.Context, result *Result) {
	result.Prefilter = map[string]Verdict{}
	result.PrefilterNodes = map[string][]string{}
	result.Filters = map[string]map[string]string{}
	state := framework.NewCycleState()
	listed := cl.framework.ListPlugins()
	out := sets.New[string]() // plugins that have no Filter to run
	for _, entry := range listed.PreFilter.Enabled {
		plugin := cl.plugins[entry.Name].(fwk.PreFilterPlugin)
		narrowed, status := plugin.PreFilter(ctx, state, cl.pod, cl.nodes)
		switch {
		case status.IsSkip():
			result.Skipped = append(result.Skipped, entry.Name)
			out.Insert(entry.Name)
		case !status.IsSuccess():
			result.Prefilter[entry.Name] = Verdict{Code: status.Code().String(), Reasons: sorted(status.Reasons())}
			out.Insert(entry.Name)
		case !narrowed.AllNodes():
			result.PrefilterNodes[entry.Name] = sets.List(narrowed.NodeNames)
		}
	}
	slices.Sort(result.Skipped)
	for _, entry := range listed.Filter.Enabled {
		if out.Has(entry.Name) {
			continue
		}
		plugin := cl.plugins[entry.Name].(fwk.FilterPlugin)
		codes := make(map[string]string, len(cl.nodes))
		for _, node := range cl.nodes {
			codes[node.Node().Name] = plugin.Filter(ctx, state, cl.pod, node).Code().String()
		}
		result.Filters[entry.Name] = codes
	}
}

// findNodes follows Scheduler.findNodesThatFitPod, but looks at every node and
// does not try the nominated node first.
func (cl *cluster) findNodes(ctx context.Context, state fwk.CycleState, result *Result) ([]fwk.NodeInfo, *framework.Diagnosis, error) {
	diagnosis := &framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus()}
	nodes := cl.nodes
	narrowed, status, narrowing := cl.framework.RunPreFilterPlugins(ctx, state, cl.pod)
	switch {
	case !status.IsSuccess() && !status.IsRejected():
		return nil, nil, status.AsError()
	case !status.IsSuccess():
		diagnosis.NodeToStatus.SetAbsentNodesStatus(status)
		diagnosis.PreFilterMsg = status.Message()
		nodes = nil
	case !narrowed.AllNodes():
		nodes = nil
		for name := range narrowed.NodeNames {
			if node, err := cl.snapshot.GetNodeInPlacement(name); err == nil {
				nodes = append(nodes, node)
			}
		}
		diagnosis.NodeToStatus.SetAbsentNodesStatus(fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
			fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(narrowing))))
	}

	passed := map[string]fwk.NodeInfo{}
	for _, node := range nodes {
		status := cl.framework.RunFilterPluginsWithNominatedPods(ctx, state, cl.pod, node)
		switch {
		case status.Code() == fwk.Error:
			return nil, nil, status.AsError()
		case status.IsSuccess():
			passed[node.Node().Name] = node
		default:
			diagnosis.NodeToStatus.Set(node.Node().Name, status)
		}
	}

	result.Filter = make(map[string]Verdict, len(cl.nodes))
	for _, node := range cl.nodes {
		name := node.Node().Name
		if _, ok := passed[name]; ok {
			result.Filter[name] = Verdict{Code: fwk.Success.String()}
		} else {
			result.Filter[name] = verdict(diagnosis.NodeToStatus.Get(name))
		}
	}
	names := slices.Sorted(maps.Keys(passed))
	feasible := make([]fwk.NodeInfo, 0, len(names))
	for _, name := range names {
		feasible = append(feasible, passed[name])
	}
	if names == nil {
		names = []string{}
	}
	result.Feasible = &names
	return feasible, diagnosis, nil
}

func verdict(status *fwk.Status) Verdict {
	return Verdict{Plugin: status.Plugin(), Code: status.Code().String(), Reasons: sorted(status.Reasons())}
}

func sorted(reasons []string) []string {
	reasons = slices.Clone(reasons)
	slices.Sort(reasons)
	return reasons
}
