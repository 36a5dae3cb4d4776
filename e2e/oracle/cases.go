// Cases and results as they stand in the lines, and the feature gates of a case.

package main

import (
	"encoding/json"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/component-base/featuregate"
)

// Case is one line: a cluster, the pod that waits in it, and how the scheduler is set up.
type Case struct {
	ID           string             `json:"id"`
	Objects      *[]json.RawMessage `json:"objects"` // nil: a request case
	Pod          json.RawMessage    `json:"pod"`
	PluginConfig json.RawMessage    `json:"pluginConfig"`
	Gates        map[string]bool    `json:"gates"`
}

// failure is the result of a case that cannot be run.
type failure struct {
	ID    string `json:"id"`
	Error string `json:"error"`
}

// Result is what the scheduler makes of a pending pod. Absent means empty.
type Result struct {
	ID             string                       `json:"id"`
	Prefilter      map[string]Verdict           `json:"prefilter,omitempty"`
	PrefilterNodes map[string][]string          `json:"prefilterNodes,omitempty"`
	Skipped        []string                     `json:"skipped,omitempty"`
	Filters        map[string]map[string]string `json:"filters,omitempty"`
	Filter         map[string]Verdict           `json:"filter,omitempty"`
	Feasible       *[]string                    `json:"feasible,omitempty"`
	Error          string                       `json:"error,omitempty"`
	Scores         map[string]map[string]Score  `json:"scores,omitempty"`
	ScoreSkipped   []string                     `json:"scoreSkipped,omitempty"`
	Total          map[string]int64             `json:"total,omitempty"`
	Best           []string                     `json:"best,omitempty"`
	Preemption     *Preemption                  `json:"preemption,omitempty"`
	FitError       string                       `json:"fitError,omitempty"`
}

// Verdict is a plugin's status. Reasons are sorted: upstream gives some in map order.
type Verdict struct {
	Plugin  string   `json:"plugin,omitempty"`
	Code    string   `json:"code"`
	Reasons []string `json:"reasons,omitempty"`
}

// Score is a plugin's score of a node, before and after normalising, without its weight.
type Score struct {
	Raw        int64 `json:"raw"`
	Normalized int64 `json:"normalized"`
}

// Preemption is what the dry run finds when no node is feasible.
type Preemption struct {
	Eligible        bool                 `json:"eligible"`
	Reason          string               `json:"reason,omitempty"`
	Potential       []string             `json:"potential,omitempty"`
	Candidates      map[string]Candidate `json:"candidates,omitempty"`
	Rejected        map[string]Verdict   `json:"rejected,omitempty"`
	Chosen          []string             `json:"chosen,omitempty"`
	PDBOrderMatters bool                 `json:"pdbOrderMatters,omitempty"`
	PostFilter      *Verdict             `json:"postFilter,omitempty"`
}

// Candidate is a node that preemption could empty enough, with its victims from
// the most to the least important.
type Candidate struct {
	Pods          []string `json:"pods"`
	PDBViolations int64    `json:"pdbViolations"`
}

// readCase reads a plain case or one wrapped as {"case": …}. It returns a case
// with every error too, for its id.
func readCase(line []byte) (*Case, error) {
	var read struct {
		Case
		Wrapped *Case `json:"case"`
	}
	err := json.Unmarshal(line, &read)
	c := &read.Case
	if read.Wrapped != nil {
		c = read.Wrapped
	}
	if err != nil {
		return c, err
	}
	if len(c.Pod) == 0 {
		return c, fmt.Errorf("no pod")
	}
	return c, nil
}

// decode reads one object as the scheduler gets it: external, without defaulting.
func decode(raw []byte) (runtime.Object, error) {
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
	return object, err
}

func decodePod(raw []byte) (*v1.Pod, error) {
	object, err := decode(raw)
	if err != nil {
		return nil, err
	}
	pod, ok := object.(*v1.Pod)
	if !ok {
		return nil, fmt.Errorf("the pending pod is a %T", object)
	}
	return pod, nil
}

// gateLock lets only cases without gates of their own run at the same time:
// feature gates belong to the whole process.
var gateLock sync.RWMutex

// withGates runs f while the feature gates stand as given, and resets them.
func withGates(gates map[string]bool, f func() error) error {
	if len(gates) == 0 {
		gateLock.RLock()
		defer gateLock.RUnlock()
		return f()
	}
	gateLock.Lock()
	defer gateLock.Unlock()

	known := utilfeature.DefaultMutableFeatureGate.GetAll()
	before := make(map[string]bool, len(gates))
	for name := range gates {
		if _, ok := known[featuregate.Feature(name)]; !ok {
			return fmt.Errorf("unknown feature gate %q", name)
		}
		before[name] = utilfeature.DefaultFeatureGate.Enabled(featuregate.Feature(name))
	}
	// A refused set is not undone, so it is tried on a copy.
	if err := utilfeature.DefaultMutableFeatureGate.DeepCopy().SetFromMap(gates); err != nil {
		return err
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(gates); err != nil {
		return err
	}
	defer func() {
		if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(before); err != nil {
			panic(fmt.Sprintf("feature gates cannot be reset: %v", err))
		}
	}()
	return f()
}
