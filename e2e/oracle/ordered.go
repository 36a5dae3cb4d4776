// Order where upstream has none. A lister returns objects in the order of a map,
// and VolumeBinding takes the first capacity that suffices and the first of
// equally small volumes. Here both kinds come sorted by namespace and name.

package main

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	storageinformers "k8s.io/client-go/informers/storage/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// inOrder makes the factory serve these kinds sorted. It comes before every other use of the factory.
func inOrder(factory informers.SharedInformerFactory) {
	factory.InformerFor(&v1.PersistentVolume{}, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		return newOrdered(coreinformers.NewPersistentVolumeInformer(client, resync, cache.Indexers{}))
	})
	factory.InformerFor(&storagev1.CSIStorageCapacity{}, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
		return newOrdered(storageinformers.NewCSIStorageCapacityInformer(client, metav1.NamespaceAll, resync, indexers))
	})
}

type orderedInformer struct {
	cache.SharedIndexInformer
	indexer orderedIndexer
}

func newOrdered(informer cache.SharedIndexInformer) orderedInformer {
	return orderedInformer{informer, orderedIndexer{informer.GetIndexer()}}
}

func (i orderedInformer) GetIndexer() cache.Indexer { return i.indexer }
func (i orderedInformer) GetStore() cache.Store     { return i.indexer }

type orderedIndexer struct {
	cache.Indexer
}

func (i orderedIndexer) List() []any { return sortedByKey(i.Indexer.List()) }

func (i orderedIndexer) ByIndex(index, value string) ([]any, error) {
	objects, err := i.Indexer.ByIndex(index, value)
	return sortedByKey(objects), err
}

func sortedByKey(objects []any) []any {
	keys := make(map[any]string, len(objects))
	for _, object := range objects {
		keys[object], _ = cache.MetaNamespaceKeyFunc(object) // Listed objects have names.
	}
	slices.SortFunc(objects, func(a, b any) int { return strings.Compare(keys[a], keys[b]) })
	return objects
}
