// Preemption, with the chance taken out: the dry run starts at the first node and
// sees them all, budgets come in order of their names, and where the last tie
// break is the order of a map, every outcome is listed.

package main

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"slices"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	policylisters "k8s.io/client-go/listers/policy/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// draws is how often the final choice is repeated to see every outcome.
const draws = 300

// preempt runs the real PostFilter plugins for a pod that no node takes, whose
// message ends the event's text, and dry-runs preemption. The dry run comes last:
// Filter of DynamicResources notes in its state which claims PostFilter may give up.
func (cl *cluster) preempt(ctx context.Context, state fwk.CycleState, diagnosis *framework.Diagnosis, result *Result) error {
	plugin := cl.plugins[defaultpreemption.Name].(*defaultpreemption.DefaultPreemption)
	steady(plugin, cl.budgets)
	found := &Preemption{}
	result.Preemption = found

	statuses := diagnosis.NodeToStatus
	nominated := statuses.Get(cl.pod.Status.NominatedNodeName)
	found.Eligible, found.Reason = plugin.PodEligibleToPreemptOthers(ctx, cl.pod, nominated)
	_, status := cl.framework.RunPostFilterPlugins(ctx, state, cl.pod, statuses)
	if found.Eligible {
		if err := cl.dryRun(ctx, plugin, state, statuses, found); err != nil {
			return err
		}
	}
	found.PostFilter = &Verdict{Code: status.Code().String()}
	if len(found.Chosen) < 2 { // else the message names a node drawn by chance
		found.PostFilter.Reasons = sorted(status.Reasons())
	}
	if len(found.Chosen) < 2 && !found.PDBOrderMatters {
		diagnosis.PostFilterMsg = status.Message()
		fitError := &framework.FitError{Pod: cl.pod, NumAllNodes: len(cl.nodes), Diagnosis: *diagnosis}
		result.FitError = fitError.Error()
	}
	return nil
}

// dryRun finds the candidates and all nodes that the final choice may return.
func (cl *cluster) dryRun(ctx context.Context, plugin *defaultpreemption.DefaultPreemption, state fwk.CycleState, statuses *framework.NodeToStatus, found *Preemption) error {
	potential, err := statuses.NodesForStatusCode(cl.snapshot.NodeInfos(), fwk.Unschedulable)
	if err != nil || len(potential) == 0 {
		return err
	}
	for _, node := range potential {
		found.Potential = append(found.Potential, node.Node().Name)
	}
	slices.Sort(found.Potential)

	run := func(budgets []*policyv1.PodDisruptionBudget) ([]preemption.Candidate, map[string]Candidate, map[string]Verdict) {
		// The error repeats statuses that are listed as rejected.
		candidates, rejected, _ := plugin.Evaluator.DryRunPreemption(ctx, state, cl.pod, potential, budgets, 0, int32(len(potential)))
		return candidates, readCandidates(candidates), readRejected(rejected)
	}
	budgets := byName(cl.budgets)
	candidates, read, rejected := run(budgets)
	found.Candidates, found.Rejected = read, rejected
	if len(budgets) > 1 {
		slices.Reverse(budgets)
		_, otherRead, otherRejected := run(budgets)
		found.PDBOrderMatters = !reflect.DeepEqual(read, otherRead) || !reflect.DeepEqual(rejected, otherRejected)
	}

	chosen := map[string]bool{}
	switch len(candidates) {
	case 0:
	case 1:
		chosen[candidates[0].Name()] = true
	default:
		for range draws {
			chosen[plugin.Evaluator.SelectCandidate(ctx, candidates).Name()] = true
		}
	}
	found.Chosen = slices.Sorted(maps.Keys(chosen))
	return nil
}

func readCandidates(candidates []preemption.Candidate) map[string]Candidate {
	read := make(map[string]Candidate, len(candidates))
	for _, candidate := range candidates {
		victims := candidate.Victims()
		pods := make([]string, 0, len(victims.Pods))
		for _, pod := range victims.Pods {
			pods = append(pods, pod.Namespace+"/"+pod.Name)
		}
		read[candidate.Name()] = Candidate{Pods: pods, PDBViolations: victims.NumPDBViolations}
	}
	return read
}

func readRejected(statuses *framework.NodeToStatus) map[string]Verdict {
	read := map[string]Verdict{}
	statuses.ForEachExplicitNode(func(name string, status *fwk.Status) {
		read[name] = verdict(status)
	})
	return read
}

// byName returns a sorted copy of the budgets.
func byName(budgets []*policyv1.PodDisruptionBudget) []*policyv1.PodDisruptionBudget {
	return slices.SortedFunc(slices.Values(budgets), func(a, b *policyv1.PodDisruptionBudget) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

// steady makes the plugin's own run repeatable, and keeps it from evicting anybody.
func steady(plugin *defaultpreemption.DefaultPreemption, budgets []*policyv1.PodDisruptionBudget) {
	plugin.Evaluator.Interface = fromTheStart{plugin}
	plugin.Evaluator.PdbLister = budgetLister{budgets: byName(budgets)}
	plugin.Executor.PreemptPod = func(context.Context, preemption.Candidate, preemption.ExecutorPreemptor, *v1.Pod, string) (bool, error) {
		return false, nil
	}
}

// fromTheStart dry-runs every node, the first one first.
type fromTheStart struct {
	*defaultpreemption.DefaultPreemption
}

func (fromTheStart) GetOffsetAndNumCandidates(nodes int32) (int32, int32) { return 0, nodes }

// budgetLister lists budgets in a fixed order. Preemption only ever lists them all.
type budgetLister struct {
	policylisters.PodDisruptionBudgetLister
	budgets []*policyv1.PodDisruptionBudget
}

func (l budgetLister) List(labels.Selector) ([]*policyv1.PodDisruptionBudget, error) {
	return l.budgets, nil
}
