package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// discoveryPoll is how often it is looked whether a kind can be discovered.
const discoveryPoll = 50 * time.Millisecond

// Apply applies every object in manifests, files ending in .yaml with one or several documents
// each, server-side, whichever manager owned their fields before. It waits until ctx ends for kinds
// that cannot be discovered yet: their own, and the kinds of parameters of admission policies. It
// can be repeated.
func (cp *ControlPlane) Apply(ctx context.Context, manifests fs.FS) error {
	objects, err := readObjects(manifests)
	if err != nil {
		return err
	}
	cfg := cp.RestConfig()
	mapper, err := discoverKinds(ctx, cfg, objects)
	if err != nil {
		return err
	}
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
	cp.kinds.renew()
	return nil
}

// discoverKinds waits until all kinds that objects have, or name as kinds of parameters, can be
// discovered.
func discoverKinds(ctx context.Context, cfg *rest.Config, objects []*unstructured.Unstructured) (meta.RESTMapper, error) {
	kinds, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(discoveryPoll)
	defer tick.Stop()
	for {
		groups, err := restmapper.GetAPIGroupResources(kinds)
		mapper := restmapper.NewDiscoveryRESTMapper(groups)
		for _, o := range objects {
			err = errors.Join(err, discovered(mapper, o))
		}
		if err == nil {
			return mapper, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("discover kinds: %w", err)
		}
	}
}

// discovered reports which kind of an object cannot be discovered.
func discovered(mapper meta.RESTMapper, o *unstructured.Unstructured) error {
	gvk := o.GroupVersionKind()
	_, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	version, _, _ := unstructured.NestedString(o.Object, "spec", "paramKind", "apiVersion")
	kind, found, _ := unstructured.NestedString(o.Object, "spec", "paramKind", "kind")
	if !found {
		return err
	}
	param := schema.FromAPIVersionAndKind(version, kind)
	_, paramErr := mapper.RESTMapping(param.GroupKind(), param.Version)
	return errors.Join(err, paramErr)
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
