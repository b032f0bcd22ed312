package backupcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/recordkey"
	"github.com/nephele-io/nephele/internal/enroll"
	"github.com/nephele-io/nephele/internal/kinds"
)

// clusterData is the format of a backup of a cluster.
const clusterData = 1

// annotationRestored says from which backup an object was restored, so that a restore that was
// interrupted goes on.
const annotationRestored = cloudv1.AnnotationPrefix + "restored-from"

// system is where the controller keeps what it writes.
const system = metav1.NamespaceSystem

// keys are the Secrets without which an installation is another one.
var keys = []string{recordkey.SecretName, enroll.AuthorityName}

// order are the kinds that are backed up, in the order in which they are restored. What guards
// comes before what is guarded: an account that knew of no policy or no selector would give its VMs
// back.
var order = []struct{ group, resource string }{
	{"crd.antrea.io", "tiers"},
	{"crd.antrea.io", "externalentities"}, {"crd.antrea.io", "externalnodes"},
	{"crd.antrea.io", "groups"}, {"crd.antrea.io", "clustergroups"},
	{"policy.networking.k8s.io", "baselineadminnetworkpolicies"}, {"policy.networking.k8s.io", "adminnetworkpolicies"},
	{"policy.networking.k8s.io", "clusternetworkpolicies"},
	{"crd.antrea.io", "networkpolicies"}, {"crd.antrea.io", "clusternetworkpolicies"},
	{"set.nephele.io", "clusters"}, {"set.nephele.io", "memberships"},
	{"crd.cloud.antrea.io", "cloudentityselectors"}, {"crd.cloud.antrea.io", "cloudprovideraccounts"},
}

// onceOnly are annotations that are somebody's word for one time. An old one must not count again.
var onceOnly = []string{
	cloudv1.AnnotationConfirm, cloudv1.AnnotationTakeOver, cloudv1.AnnotationAllowDeletion, cloudv1.AnnotationBreakGlass, cloudv1.AnnotationBreakGlassUntil,
	cloudv1.AnnotationPrefix + "force",
}

func backedUp() ([]kinds.Kind, error) {
	var out []kinds.Kind
	for _, o := range order {
		k, ok := kinds.FindResource(o.group, o.resource)
		if !ok {
			return nil, fmt.Errorf("there is no kind %s.%s", o.resource, o.group)
		}
		out = append(out, k)
	}
	return out, nil
}

func fileOf(k kinds.Kind) string { return "objects/" + k.Resource + "." + k.Group + ".json" }

// list reads all objects of a kind; none if its definition is somebody else's and missing.
func list(ctx context.Context, c client.Client, k kinds.Kind) ([]unstructured.Unstructured, error) {
	l := &unstructured.UnstructuredList{}
	l.SetGroupVersionKind(k.GroupVersion().WithKind(k.Kind + "List"))
	err := c.List(ctx, l)
	if gone := meta.IsNoMatchError(err) || apierrors.IsNotFound(err); gone && k.Is(kinds.Optional) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s.%s: %w", k.Resource, k.Group, err)
	}
	return l.Items, nil
}

// ours reports whether somebody wrote the object, and no controller that will write it again.
func ours(o *unstructured.Unstructured) bool {
	if metav1.GetControllerOf(o) != nil || len(o.GetOwnerReferences()) > 0 || o.GetDeletionTimestamp() != nil {
		return false
	}
	if o.GetLabels()[setv1alpha1.LabelFromHub] != "" {
		return false // the hub sends it again
	}
	for k := range o.GetLabels() {
		if strings.HasPrefix(k, "nephe.antrea.io/") || k == "app.kubernetes.io/managed-by" && o.GetLabels()[k] == "nephele" {
			return false
		}
	}
	return true
}

// owned reports whether an object is left out because it belongs to another one, of a kind that
// Nephele does not make it from. Whether that comes back is not for Nephele to know.
func owned(o *unstructured.Unstructured) bool {
	refs := o.GetOwnerReferences()
	if len(refs) == 0 || refs[0].Kind == "ExternalNode" || o.GetDeletionTimestamp() != nil {
		return false
	}
	alone := o.DeepCopy()
	alone.SetOwnerReferences(nil)
	return ours(alone)
}

// called is how an object is named in messages.
func called(o *unstructured.Unstructured) string {
	return o.GetKind() + " " + strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
}

// some are the first of many names.
func some(names []string) string {
	const most = 10
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// stripped is what of an object is its author's.
func stripped(o *unstructured.Unstructured) *unstructured.Unstructured {
	out := o.DeepCopy()
	delete(out.Object, "status")
	m := map[string]any{"name": o.GetName()}
	if ns := o.GetNamespace(); ns != "" {
		m["namespace"] = ns
	}
	out.Object["metadata"] = m
	out.SetLabels(o.GetLabels())
	annotations := maps.Clone(o.GetAnnotations())
	for _, a := range append(slices.Clone(onceOnly), annotationRestored) {
		delete(annotations, a)
	}
	out.SetAnnotations(annotations)
	return out
}

// backupCluster writes what an installation needs into a folder, and returns what it leaves out.
func backupCluster(ctx context.Context, c client.Client, into string) (notes []string, err error) {
	all, err := backedUp()
	if err != nil {
		return nil, err
	}
	for _, name := range keys {
		var s corev1.Secret
		if err := c.Get(ctx, client.ObjectKey{Namespace: system, Name: name}, &s); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read Secret %s/%s: %w", system, name, err)
		}
		if len(s.Data) == 0 {
			notes = append(notes, fmt.Sprintf("Secret %s/%s has no key yet", system, name))
			continue
		}
		if err := writeJSON(into, "keys/"+name+".json", s.Data); err != nil {
			return nil, err
		}
	}
	namespaces, secrets := map[string]bool{}, map[string]bool{}
	var others []string
	for _, k := range all {
		found, err := list(ctx, c, k)
		if err != nil {
			return nil, err
		}
		objects := []*unstructured.Unstructured{}
		for i := range found {
			if !ours(&found[i]) {
				if owned(&found[i]) {
					others = append(others, called(&found[i]))
				}
				continue
			}
			o := stripped(&found[i])
			objects = append(objects, o)
			if o.GetNamespace() != "" {
				namespaces[o.GetNamespace()] = true
			}
			for _, config := range []string{"awsConfig", "azureConfig"} {
				if ref, ok, _ := unstructured.NestedStringMap(o.Object, "spec", config, "secretRef"); ok && k.Resource == "cloudprovideraccounts" {
					secrets[ref["namespace"]+"/"+ref["name"]] = true
				}
			}
		}
		if err := writeJSON(into, fileOf(k), objects); err != nil {
			return nil, err
		}
	}
	if err := backupNamespaces(ctx, c, into, slices.Sorted(maps.Keys(namespaces))); err != nil {
		return nil, err
	}
	if len(secrets) > 0 {
		notes = append(notes, "the Secrets of the accounts are not in it: "+strings.Join(slices.Sorted(maps.Keys(secrets)), ", "))
	}
	if len(others) > 0 {
		notes = append(notes, "what belongs to an object of another kind is not in it, as its controller has to make it again: "+some(others))
	}
	return notes, nil
}

const namespacesFile = "objects/namespaces.json"

// backupNamespaces keeps the labels by which policies know namespaces.
func backupNamespaces(ctx context.Context, c client.Client, into string, names []string) error {
	out := map[string]map[string]string{}
	for _, name := range names {
		var ns corev1.Namespace
		if err := c.Get(ctx, client.ObjectKey{Name: name}, &ns); err != nil {
			return fmt.Errorf("read the namespace %s: %w", name, err)
		}
		out[name] = ns.Labels
	}
	return writeJSON(into, namespacesFile, out)
}

func writeJSON(into, name string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	path := filepath.Join(into, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

// readJSON reads a file of a backup; a missing one leaves v as it is.
func readJSON(from, name string, v any) error {
	text, err := os.ReadFile(filepath.Join(from, filepath.FromSlash(name)))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// content is a backup of a cluster that was read.
type content struct {
	id         string
	keys       map[string]map[string][]byte
	namespaces map[string]map[string]string
	objects    []*unstructured.Unstructured // in the order of their restoration
}

func readContent(from, id string) (*content, error) {
	all, err := backedUp()
	if err != nil {
		return nil, err
	}
	out := &content{id: id, keys: map[string]map[string][]byte{}, namespaces: map[string]map[string]string{}}
	for _, name := range keys {
		var data map[string][]byte
		if err := readJSON(from, "keys/"+name+".json", &data); err != nil {
			return nil, err
		}
		if len(data) > 0 {
			out.keys[name] = data
		}
	}
	if err := readJSON(from, namespacesFile, &out.namespaces); err != nil {
		return nil, err
	}
	for _, k := range all {
		var objects []*unstructured.Unstructured
		if err := readJSON(from, fileOf(k), &objects); err != nil {
			return nil, err
		}
		for _, o := range objects {
			if o == nil || o.GroupVersionKind().Group != k.Group || o.GetKind() != k.Kind || o.GetName() == "" || (o.GetNamespace() != "") != k.Namespaced {
				return nil, fmt.Errorf("%s: it has something that is no %s", fileOf(k), k.Kind)
			}
			o = stripped(o)
			annotations := o.GetAnnotations()
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations[annotationRestored] = id
			o.SetAnnotations(annotations)
			out.objects = append(out.objects, o)
		}
	}
	return out, nil
}

// empty reports what is in the way: an object that is not from this backup, or another key. Tiers
// are in no one's way, as every installation has some, unless policies would come in another order.
func (b *content) empty(ctx context.Context, c client.Client) error {
	all, err := backedUp()
	if err != nil {
		return err
	}
	for _, k := range all {
		found, err := list(ctx, c, k)
		if err != nil {
			return err
		}
		for i := range found {
			o := &found[i]
			if k.Resource == "tiers" {
				if err := b.sameTier(o); err != nil {
					return err
				}
				continue
			}
			if !ours(o) || o.GetAnnotations()[annotationRestored] == b.id {
				continue
			}
			return fmt.Errorf("the cluster is not empty: there is %s; a backup is restored where nothing of its kinds is", called(o))
		}
	}
	for name, data := range b.keys {
		var s corev1.Secret
		err := c.Get(ctx, client.ObjectKey{Namespace: system, Name: name}, &s)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read Secret %s/%s: %w", system, name, err)
		}
		if len(s.Data) > 0 && !reflect.DeepEqual(s.Data, data) {
			return fmt.Errorf("the Secret %s/%s holds another key: stop the controller, delete what is in it, and restore before it runs", system, name)
		}
	}
	return nil
}

// sameTier reports whether a tier has another place than in the backup.
func (b *content) sameTier(there *unstructured.Unstructured) error {
	for _, o := range b.objects {
		if o.GetKind() != there.GetKind() || o.GetName() != there.GetName() {
			continue
		}
		has, _, err1 := unstructured.NestedInt64(there.Object, "spec", "priority")
		had, _, err2 := unstructured.NestedInt64(o.Object, "spec", "priority")
		if err := errors.Join(err1, err2); err != nil {
			return fmt.Errorf("%s: %w", called(o), err)
		}
		if has != had {
			return fmt.Errorf("%s has spec.priority %d, and %d in the backup: policies would come in another order; change it first", called(o), has, had)
		}
	}
	return nil
}

// restore makes what is missing, and returns what is there and not as it was. It can be repeated.
func (b *content) restore(ctx context.Context, c client.Client) (made int, notes []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(b.namespaces)) {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: maps.Clone(b.namespaces[name])}}
		delete(ns.Labels, corev1.LabelMetadataName)
		err := c.Create(ctx, ns)
		if apierrors.IsAlreadyExists(err) {
			var there corev1.Namespace
			if err = c.Get(ctx, client.ObjectKeyFromObject(ns), &there); err == nil {
				if lacks := lacking(there.Labels, ns.Labels); len(lacks) > 0 {
					notes = append(notes, fmt.Sprintf("the namespace %s was there, and policies that go by its labels may miss it: it lacks %s", name, some(lacks)))
				}
			}
		}
		if err != nil {
			return made, notes, fmt.Errorf("make the namespace %s: %w", name, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.keys)) {
		if err := putKey(ctx, c, name, b.keys[name]); err != nil {
			return made, notes, fmt.Errorf("write Secret %s/%s: %w", system, name, err)
		}
	}
	for _, o := range b.objects {
		err := c.Create(ctx, o.DeepCopy())
		switch {
		case err == nil:
			made++
		case !apierrors.IsAlreadyExists(err):
			return made, notes, fmt.Errorf("make %s: %w", called(o), err)
		case o.GetKind() != "Tier": // see empty
			there := &unstructured.Unstructured{}
			there.SetGroupVersionKind(o.GroupVersionKind())
			if err := c.Get(ctx, client.ObjectKeyFromObject(o), there); err != nil {
				return made, notes, fmt.Errorf("read %s: %w", called(o), err)
			}
			if there.GetAnnotations()[annotationRestored] != b.id || there.GetDeletionTimestamp() != nil {
				return made, notes, fmt.Errorf("%s is there and not from this backup, or is being deleted", called(o))
			}
		}
	}
	return made, notes, nil
}

// lacking are the labels that are wanted and not there.
func lacking(there, want map[string]string) (out []string) {
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if v, ok := there[k]; !ok || v != want[k] {
			out = append(out, k+"="+want[k])
		}
	}
	return out
}

// putKey fills a Secret, which the manifests make without content.
func putKey(ctx context.Context, c client.Client, name string, data map[string][]byte) error {
	s := &corev1.Secret{}
	err := c.Get(ctx, client.ObjectKey{Namespace: system, Name: name}, s)
	if apierrors.IsNotFound(err) {
		return c.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: name, Labels: map[string]string{"app.kubernetes.io/name": "nephele"}},
			Type: corev1.SecretTypeOpaque, Data: data})
	}
	if err != nil || reflect.DeepEqual(s.Data, data) {
		return err
	}
	if len(s.Data) > 0 {
		return errors.New("it got another key meanwhile")
	}
	s.Data = data
	return c.Update(ctx, s)
}
