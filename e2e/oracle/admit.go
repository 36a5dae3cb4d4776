// Admission: would a real API server accept the objects of a case? Each is decoded
// strictly, defaulted and converted as upon a request, and goes through the same
// strategy that the API server runs on create.
//
// It is for the generator of cases. A strategy drops what only status may set, so
// the status of bound pods, claims and budgets is not judged here.

package main

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"

	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
)

// Problems is the result of a case with -admit.
type Problems struct {
	ID       string   `json:"id"`
	Problems []string `json:"problems,omitempty"`
}

var strict = serializer.NewCodecFactory(legacyscheme.Scheme, serializer.EnableStrict)

// admission judges all objects of a case and its pod.
func admission(c *Case) (any, error) {
	result := &Problems{ID: c.ID}
	objects := []json.RawMessage{c.Pod}
	if c.Objects != nil {
		objects = append(objects, *c.Objects...)
	}
	return result, withGates(c.Gates, func() error {
		for _, raw := range objects {
			result.Problems = append(result.Problems, problemsOf(raw)...)
		}
		return nil
	})
}

// problemsOf judges one object, in lines "<kind> <namespace/name>: <error>".
func problemsOf(raw []byte) []string {
	var named metav1.PartialObjectMetadata
	_ = json.Unmarshal(raw, &named) // Decoding below reports what is wrong.
	label := named.Kind + " " + named.Name
	if named.Namespace != "" {
		label = named.Kind + " " + named.Namespace + "/" + named.Name
	}
	var problems []string
	object, kind, err := strict.UniversalDecoder().Decode(raw, nil, nil)
	if err != nil {
		problems = append(problems, fmt.Sprintf("%s: %v", label, err))
		if !runtime.IsStrictDecodingError(err) {
			return problems
		}
	}
	strategy := strategyOf(object)
	if strategy == nil {
		return append(problems, fmt.Sprintf("%s: no validation is known for %s", label, kind))
	}
	for _, err := range rest.ValidateCreate(prepared(object, strategy), object, strategy) {
		problems = append(problems, fmt.Sprintf("%s: %v", label, err))
	}
	return problems
}

// prepared does what the API server does between decoding and validation, and
// returns the context of the request.
func prepared(object runtime.Object, strategy rest.RESTCreateStrategy) context.Context {
	ctx := genericapirequest.NewContext()
	request := &genericapirequest.RequestInfo{IsResourceRequest: true, Verb: "create"}
	if kinds, _, err := legacyscheme.Scheme.ObjectKinds(object); err == nil {
		request.APIGroup = kinds[0].Group
		request.APIVersion = legacyscheme.Scheme.PrioritizedVersionsForGroup(kinds[0].Group)[0].Version
	}
	if accessor, err := meta.Accessor(object); err == nil {
		rest.FillObjectMetaSystemFields(accessor)
		accessor.SetDeletionTimestamp(nil)
		accessor.SetDeletionGracePeriodSeconds(nil)
		if strategy.NamespaceScoped() && accessor.GetNamespace() == "" {
			accessor.SetNamespace(metav1.NamespaceDefault)
		}
		ctx = genericapirequest.WithNamespace(ctx, accessor.GetNamespace())
	}
	ctx = genericapirequest.WithRequestInfo(ctx, request)
	if pod, ok := object.(*core.Pod); ok {
		unmerge(pod)
	}
	strategy.PrepareForCreate(ctx, object)
	return ctx
}
