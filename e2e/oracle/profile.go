// The scheduler's profile: the default plugins, with the plugin arguments of a case.

package main

import (
	"encoding/json"
	"fmt"

	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// readProfile decodes, defaults and validates a profile as kube-scheduler does
// with its configuration file.
func readProfile(pluginConfig json.RawMessage) (*config.KubeSchedulerProfile, error) {
	profile := map[string]any{"schedulerName": "default-scheduler"}
	if len(pluginConfig) > 0 {
		profile["pluginConfig"] = pluginConfig
	}
	file, err := json.Marshal(map[string]any{
		"apiVersion":     "kubescheduler.config.k8s.io/v1",
		"kind":           "KubeSchedulerConfiguration",
		"leaderElection": map[string]any{"leaderElect": false},
		"profiles":       []any{profile},
	})
	if err != nil {
		return nil, err
	}
	object, err := decodeConfiguration(file)
	if err != nil {
		return nil, err
	}
	// Validation asks for the version that decoding drops.
	object.TypeMeta.APIVersion = "kubescheduler.config.k8s.io/v1"
	if err := validation.ValidateKubeSchedulerConfiguration(object); err != nil {
		return nil, err
	}
	return &object.Profiles[0], nil
}

func decodeConfiguration(file []byte) (*config.KubeSchedulerConfiguration, error) {
	object, _, err := scheme.Codecs.UniversalDecoder().Decode(file, nil, nil)
	if err != nil {
		return nil, err
	}
	configuration, ok := object.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("the configuration decodes to a %T", object)
	}
	return configuration, nil
}

// scoreWeights returns the weight of each score plugin.
func scoreWeights(f framework.Framework) map[string]int64 {
	weights := map[string]int64{}
	for _, plugin := range f.ListPlugins().Score.Enabled {
		weights[plugin.Name] = int64(plugin.Weight)
	}
	return weights
}
