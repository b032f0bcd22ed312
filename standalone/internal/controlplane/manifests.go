package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
)

// Apply applies every object in manifests, files ending in .yaml with one or several documents each, server-side and whoever owned their
// fields before. Their kinds must be served. It can be repeated.
func (cp *ControlPlane) Apply(ctx context.Context, manifests fs.FS) error {
	objects, err := readObjects(manifests)
	if err != nil {
		return err
	}
	cfg := cp.RestConfig()
	kinds, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return err
	}
	groups, err := restmapper.GetAPIGroupResources(kinds)
	if err != nil {
		return fmt.Errorf("discover kinds: %w", err)
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return err
	}
	for _, o := range objects {
		gvk := o.GroupVersionKind()
		mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			return fmt.Errorf("apply %s %s: %w", gvk.Kind, o.GetName(), err)
		}
		var resource dynamic.ResourceInterface = client.Resource(mapping.Resource)
		if o.GetNamespace() != "" {
			resource = client.Resource(mapping.Resource).Namespace(o.GetNamespace())
		}
		if _, err := resource.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: fieldManager, Force: true}); err != nil {
			return fmt.Errorf("apply %s %s: %w", gvk.Kind, o.GetName(), err)
		}
	}
	return nil
}

// readObjects reads all documents of all files, in the order of the files' names.
func readObjects(manifests fs.FS) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	err := fs.WalkDir(manifests, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".yaml" {
			return err
		}
		data, err := fs.ReadFile(manifests, name)
		if err != nil {
			return err
		}
		decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), len(data))
		for {
			o := &unstructured.Unstructured{}
			switch err := decoder.Decode(o); {
			case errors.Is(err, io.EOF):
				return nil
			case err != nil:
				return fmt.Errorf("%s: %w", name, err)
			case len(o.Object) > 0:
				out = append(out, o)
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("read manifests: %w", err)
	}
	return out, nil
}
