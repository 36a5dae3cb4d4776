// Pods of a cluster have been created already, so their matchLabelKeys are merged
// into the selectors. To be created once more they are taken back to before that.

package main

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/apis/core"
)

// unmerge removes the requirements that creation adds for matchLabelKeys and
// mismatchLabelKeys. A pod without them stays as it is.
func unmerge(pod *core.Pod) {
	for i := range pod.Spec.TopologySpreadConstraints {
		constraint := &pod.Spec.TopologySpreadConstraints[i]
		removeKeys(constraint.LabelSelector, constraint.MatchLabelKeys, metav1.LabelSelectorOpIn, pod.Labels)
	}
	if pod.Spec.Affinity == nil {
		return
	}
	if affinity := pod.Spec.Affinity.PodAffinity; affinity != nil {
		unmergeTerms(affinity.RequiredDuringSchedulingIgnoredDuringExecution, affinity.PreferredDuringSchedulingIgnoredDuringExecution, pod.Labels)
	}
	if affinity := pod.Spec.Affinity.PodAntiAffinity; affinity != nil {
		unmergeTerms(affinity.RequiredDuringSchedulingIgnoredDuringExecution, affinity.PreferredDuringSchedulingIgnoredDuringExecution, pod.Labels)
	}
}

func unmergeTerms(required []core.PodAffinityTerm, preferred []core.WeightedPodAffinityTerm, labels map[string]string) {
	unmergeTerm := func(term *core.PodAffinityTerm) {
		removeKeys(term.LabelSelector, term.MatchLabelKeys, metav1.LabelSelectorOpIn, labels)
		removeKeys(term.LabelSelector, term.MismatchLabelKeys, metav1.LabelSelectorOpNotIn, labels)
	}
	for i := range required {
		unmergeTerm(&required[i])
	}
	for i := range preferred {
		unmergeTerm(&preferred[i].PodAffinityTerm)
	}
}

// removeKeys removes the last requirement of each key that asks for the pod's own value.
func removeKeys(selector *metav1.LabelSelector, keys []string, operator metav1.LabelSelectorOperator, labels map[string]string) {
	if selector == nil {
		return
	}
	for _, key := range keys {
		for i := len(selector.MatchExpressions) - 1; i >= 0; i-- {
			e := selector.MatchExpressions[i]
			if e.Key == key && e.Operator == operator && slices.Equal(e.Values, []string{labels[key]}) {
				selector.MatchExpressions = slices.Delete(selector.MatchExpressions, i, i+1)
				break
			}
		}
	}
}
