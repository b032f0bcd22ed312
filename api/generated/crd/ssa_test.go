package crd_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/yaml"
)

// converters are what kube-apiserver merges applied objects by, per kind.
func converters(t *testing.T) map[schema.GroupVersionKind]managedfields.TypeConverter {
	t.Helper()
	out := map[schema.GroupVersionKind]managedfields.TypeConverter{}
	for _, d := range definitions(t) {
		for _, v := range d.Spec.Versions {
			doc, err := builder.BuildOpenAPIV3(d, v.Name, builder.Options{})
			if err != nil {
				t.Fatalf("%s: %v", d.Name, err)
			}
			models := map[string]*spec.Schema{}
			for name, s := range doc.Components.Schemas {
				models[name] = s
			}
			c, err := managedfields.NewTypeConverter(models, false)
			if err != nil {
				t.Fatalf("%s: %v", d.Name, err)
			}
			out[schema.GroupVersionKind{Group: d.Spec.Group, Version: v.Name, Kind: d.Spec.Names.Kind}] = c
		}
	}
	return out
}

// TestServerSideApply: what "kubectl apply --server-side" does first with an object, it can do with the samples and with every way to
// select VMs.
func TestServerSideApply(t *testing.T) {
	all := converters(t)
	objects := map[string]*unstructured.Unstructured{}
	for name, entries := range map[string]string{
		"VMs by id":           "{vmMatch: [{matchID: i-1}, {matchID: i-2}]}",
		"VMs by name, twice":  "{vmMatch: [{matchName: web}, {matchName: web}]}",
		"VMs of a VPC":        "{vpcMatch: {matchID: vpc-1}, vmMatch: [{matchID: i-1}]}",
		"VMs by tags":         "{tagMatch: [{key: role, values: [web, db]}]}",
		"VMs by tags and ids": "{tagMatch: [{key: role}], vmMatch: [{matchID: i-1}]}",
	} {
		objects[name] = withSpec(t, cloudVersion, "CloudEntitySelector", "{accountName: a, accountNamespace: ns, vmSelector: ["+entries+"]}")
	}
	files, err := filepath.Glob("../../../config/samples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %d samples", err, len(files))
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for doc := range strings.SplitSeq(string(text), "\n---\n") {
			o := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(doc), &o.Object); err != nil {
				t.Fatalf("%s: %v", f, err)
			}
			if len(o.Object) > 0 && all[o.GroupVersionKind()] != nil {
				objects[filepath.Base(f)+" "+o.GetKind()+" "+o.GetName()] = o
			}
		}
	}
	for name, o := range objects {
		c := all[o.GroupVersionKind()]
		if c == nil {
			t.Fatalf("%s: no such kind: %s", name, o.GroupVersionKind())
		}
		if _, err := c.ObjectToTyped(o); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestApplyTwice: a selector that is applied again has what the manifest says now, and nothing of
// what it said before.
func TestApplyTwice(t *testing.T) {
	gvk := schema.FromAPIVersionAndKind(cloudVersion, "CloudEntitySelector")
	manager, err := managedfields.NewDefaultCRDFieldManager(converters(t)[gvk], asIs{}, nothing{}, creater{}, gvk, gvk.GroupVersion(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	live := withSpec(t, cloudVersion, "CloudEntitySelector", "{accountName: a, accountNamespace: ns, vmSelector: [{vmMatch: [{matchID: i-1}]}]}")
	live.SetName("s")
	live.SetNamespace("ns")
	again := withSpec(t, cloudVersion, "CloudEntitySelector", "{accountName: a, accountNamespace: ns, vmSelector: [{vmMatch: [{matchID: i-2}]}]}")
	again.SetName("s")
	again.SetNamespace("ns")
	var stored runtime.Object = &unstructured.Unstructured{Object: map[string]any{"apiVersion": cloudVersion, "kind": "CloudEntitySelector", "metadata": map[string]any{"name": "s", "namespace": "ns"}}}
	for _, o := range []*unstructured.Unstructured{live, again} {
		if stored, err = manager.Apply(stored, o, "me", false); err != nil {
			t.Fatal(err)
		}
	}
	got, _, _ := unstructured.NestedSlice(stored.(*unstructured.Unstructured).Object, "spec", "vmSelector")
	if text, _ := yaml.Marshal(got); string(text) != "- vmMatch:\n  - matchID: i-2\n" {
		t.Errorf("%s", text)
	}
}

// asIs, nothing and creater stand for what a CRD's handler has: one version, no defaults.
type asIs struct{}

func (asIs) Convert(_, _, _ any) error { return nil }
func (asIs) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}
func (asIs) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

type nothing struct{}

func (nothing) Default(runtime.Object) {}

type creater struct{}

func (creater) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	return o, nil
}
