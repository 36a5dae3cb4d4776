// The API server's strategies by kind, for the kinds that matter to scheduling.

package main

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/policy"
	"k8s.io/kubernetes/pkg/apis/resource"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	"k8s.io/kubernetes/pkg/apis/storage"
	"k8s.io/kubernetes/pkg/registry/apps/replicaset"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/core/namespace"
	"k8s.io/kubernetes/pkg/registry/core/node"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolume"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/registry/core/replicationcontroller"
	"k8s.io/kubernetes/pkg/registry/core/service"
	"k8s.io/kubernetes/pkg/registry/policy/poddisruptionbudget"
	"k8s.io/kubernetes/pkg/registry/resource/deviceclass"
	"k8s.io/kubernetes/pkg/registry/resource/devicetaintrule"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaim"
	"k8s.io/kubernetes/pkg/registry/resource/resourceslice"
	"k8s.io/kubernetes/pkg/registry/scheduling/priorityclass"
	"k8s.io/kubernetes/pkg/registry/storage/csidriver"
	"k8s.io/kubernetes/pkg/registry/storage/csinode"
	"k8s.io/kubernetes/pkg/registry/storage/csistoragecapacity"
	"k8s.io/kubernetes/pkg/registry/storage/storageclass"
	"k8s.io/kubernetes/pkg/registry/storage/volumeattachment"
)

// claimStrategy needs to look up the namespaces of claims with admin access, and
// finds none: such a claim is a problem in every case.
func claimStrategy() rest.RESTCreateStrategy {
	return resourceclaim.NewStrategy(fake.NewClientset().CoreV1().Namespaces(), nil)
}

// strategyOf returns what the API server runs when an object of this kind is created.
func strategyOf(object runtime.Object) rest.RESTCreateStrategy {
	switch object.(type) {
	case *core.Namespace:
		return namespace.Strategy
	case *core.Node:
		return node.Strategy
	case *core.PersistentVolume:
		return persistentvolume.Strategy
	case *core.PersistentVolumeClaim:
		return persistentvolumeclaim.Strategy
	case *core.Pod:
		return pod.Strategy
	case *core.ReplicationController:
		return replicationcontroller.Strategy
	case *core.Service:
		return service.Strategy
	case *apps.ReplicaSet:
		return replicaset.Strategy
	case *apps.StatefulSet:
		return statefulset.Strategy
	case *policy.PodDisruptionBudget:
		return poddisruptionbudget.Strategy
	case *resource.DeviceClass:
		return deviceclass.Strategy
	case *resource.DeviceTaintRule:
		return devicetaintrule.Strategy
	case *resource.ResourceClaim:
		return claimStrategy()
	case *resource.ResourceSlice:
		return resourceslice.Strategy
	case *scheduling.PriorityClass:
		return priorityclass.Strategy
	case *storage.CSIDriver:
		return csidriver.Strategy
	case *storage.CSINode:
		return csinode.Strategy
	case *storage.CSIStorageCapacity:
		return csistoragecapacity.Strategy
	case *storage.StorageClass:
		return storageclass.Strategy
	case *storage.VolumeAttachment:
		return volumeattachment.Strategy
	}
	return nil
}
