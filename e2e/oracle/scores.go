// Scores of the feasible nodes.

package main

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// score follows prioritizeNodes of the scheduler, also where only one node is feasible.
func (cl *cluster) score(ctx context.Context, state fwk.CycleState, feasible []fwk.NodeInfo, result *Result) error {
	if status := cl.framework.RunPreScorePlugins(ctx, state, cl.pod, feasible); !status.IsSuccess() {
		return status.AsError()
	}
	scored, status := cl.framework.RunScorePlugins(ctx, state, cl.pod, feasible)
	if !status.IsSuccess() {
		return status.AsError()
	}
	result.ScoreSkipped = sets.List(state.GetSkipScorePlugins())
	result.Scores = map[string]map[string]Score{}
	result.Total = make(map[string]int64, len(scored))
	for _, node := range scored {
		result.Total[node.Name] = node.TotalScore
		for i, raw := range node.RawScores {
			weighted, weight := node.Scores[i], cl.weights[raw.Name]
			if weighted.Name != raw.Name || weight == 0 {
				return fmt.Errorf("scores of %s and %s do not pair up", raw.Name, weighted.Name)
			}
			if result.Scores[raw.Name] == nil {
				result.Scores[raw.Name] = map[string]Score{}
			}
			result.Scores[raw.Name][node.Name] = Score{Raw: raw.Score, Normalized: weighted.Score / weight}
		}
	}
	result.Best = best(result.Total)
	return nil
}

// best returns the nodes that share the top score.
func best(total map[string]int64) []string {
	var names []string
	var top int64
	for name, score := range total {
		if len(names) == 0 || score > top {
			names, top = nil, score
		}
		if score == top {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
