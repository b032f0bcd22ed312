package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/internal/policy/policytest"
	"github.com/nephele-io/nephele/internal/tier"
)

const recordedDir = "../../testdata/conformance/policy"

// refusedField are what the message of each refusal must name, by case.
var refusedField = map[string]string{
	"v01-no-applied-to":         "spec.appliedTo",
	"v02-applied-to-both":       "spec.ingress[0].appliedTo",
	"v04-priority-out-of-range": "spec.priority",
	"v05-endport-without-port":  "spec.ingress[0].ports[0].endPort",
	"v07-group-with-selector":   "spec.ingress[0].from[0]",
	"v10-fqdn-ingress":          "spec.ingress[0].from[0].fqdn",
	"v11-duplicate-rule-names":  "spec.ingress[1].name",
	"v13-invalid-selector":      "matchExpressions[0]",
	"v19-toservices-and-to":     "spec.egress[0].toServices",
	"v20-unknown-action":        "spec.ingress[0].action",
	"v22-port-string-bad":       "spec.ingress[0].ports[0].port",
	"v23-loglabel-bad":          "spec.ingress[0].logLabel",
}

// TestRecordedCasesLive puts every recorded case through a real API server, its schemas and our
// webhooks, and holds what the served API lists, what its watches give each enforcer, and what is
// refused with which code against the recorded answers. What the recorded cluster's schema removed
// without a word is removed from the input first. Where we read a policy otherwise (see
// policytest.PruneManifest), what is served must be what the offline command computes. At each
// commit it is a sample: TestComputeRecordedCases (internal/cli) computes all of them, and
// TestRecordedAdmission (api/generated/crd) has all admitted or refused.
func TestRecordedCasesLive(t *testing.T) {
	t.Parallel()
	cases := recordedCases(t)
	r := newReplay(t, pooledCluster(t))
	for i, c := range cases {
		if i%tier.Pick(8, 8, 1) != 0 {
			continue
		}
		t.Run(c.name, func(t *testing.T) { r.run(t, c) })
	}
	t.Logf("%d cases as recorded, %d as computed offline, %d stricter", r.asRecorded, r.asComputed, r.stricter)
}

// recordedCase is one case, its input as it is sent.
type recordedCase struct {
	name      string
	objects   []*unstructured.Unstructured
	relative  bool
	want      map[string]any
	rejected  []refusedObject
	keys      []string
	namespace string // all Namespaces of the case, to put cases with the same ones side by side
}

type refusedObject struct {
	Code      int32
	Kind      string
	Namespace string
	Name      string
	Message   string
}

func recordedCases(t *testing.T) []*recordedCase {
	t.Helper()
	dirs, err := os.ReadDir(recordedDir)
	if err != nil {
		t.Fatal(err)
	}
	if len(dirs) < 94 {
		t.Fatalf("%d cases, want 94", len(dirs))
	}
	var out []*recordedCase
	for _, dir := range dirs {
		c := &recordedCase{name: dir.Name()}
		c.readInput(t, filepath.Join(recordedDir, dir.Name(), "input.yaml"))
		raw, err := os.ReadFile(filepath.Join(recordedDir, dir.Name(), "expected.json"))
		if err != nil {
			t.Fatal(err)
		}
		var rest struct {
			Rejected []refusedObject
			Span     map[string]any
		}
		if err := errors.Join(json.Unmarshal(raw, &c.want), json.Unmarshal(raw, &rest)); err != nil {
			t.Fatal(err)
		}
		c.rejected = rest.Rejected
		for key := range rest.Span {
			c.keys = append(c.keys, key)
		}
		slices.Sort(c.keys)
		out = append(out, c)
	}
	slices.SortStableFunc(out, func(a, b *recordedCase) int { return strings.Compare(a.namespace, b.namespace) })
	return out
}

func (c *recordedCase) readInput(t *testing.T, path string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range strings.Split(string(raw), "---\n") {
		if strings.TrimSpace(doc) == "" {
			continue
		}
		o := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(doc), &o.Object); err != nil {
			t.Fatal(err)
		}
		c.relative = policytest.PruneManifest(o.Object) || c.relative
		c.objects = append(c.objects, o)
		if o.GetKind() == "Namespace" {
			c.namespace += o.GetName() + " "
		}
	}
}

// replay is one cluster that one case after the other is put into.
type replay struct {
	client client.Client
	kube   kubernetes.Interface
	api    rest.Interface
	// namespaces are those that exist now.
	namespaces map[string]bool

	asRecorded, asComputed, stricter int
}

func newReplay(t *testing.T, c *cluster) *replay {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(c.dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS = -1
	cfg.WarningHandler = rest.NoWarnings{}
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := &replay{client: newClient(t, cfg), kube: kube, api: kube.CoreV1().RESTClient(), namespaces: map[string]bool{}}
	r.putNamespace(t, "vm-ns", nil)
	return r
}

// run creates the objects of a case, compares, and deletes them.
func (r *replay) run(t *testing.T, c *recordedCase) {
	r.dropNamespaces(t, c)
	stored, refused := r.create(t, c.objects)
	defer r.clear(t, stored)
	reason := policytest.Stricter()[c.name]
	if reason == "" && len(refused) != len(c.rejected) || reason != "" && len(refused) == 0 {
		t.Errorf("refused: %+v, want: %+v %s", refused, c.rejected, reason)
	}
	for i, got := range refused {
		if !strings.Contains(got.Message, refusedField[c.name]) || refusedField[c.name] == "" {
			t.Errorf("the refusal does not name %q: %s", refusedField[c.name], got.Message)
		}
		if reason != "" {
			continue
		}
		want := c.rejected[i]
		got.Message, want.Message = "", ""
		if got != want {
			t.Errorf("refused: %+v, want %+v", got, want)
		}
	}
	want := c.want
	switch {
	case reason != "":
		r.stricter++
		want = map[string]any{"networkpolicies": []any{}, "addressgroups": []any{}, "appliedtogroups": []any{}}
	case c.relative:
		r.asComputed++
		want = offline(t, c)
	default:
		r.asRecorded++
	}
	var diff string
	settled := within(t.Context(), func(ctx context.Context) bool {
		got, err := r.served(ctx)
		if err != nil {
			// At first nothing is computed yet.
			diff = err.Error()
			return false
		}
		diff = cmp.Diff(relevant(want), got)
		return diff == ""
	})
	if !settled {
		t.Fatalf("served (-want +got):\n%s", diff)
	}
	for _, key := range c.keys {
		if diff := cmp.Diff(spanOf(key, want, c.objects), r.watched(t, key)); diff != "" {
			t.Errorf("what %s is given (-want +got):\n%s", key, diff)
		}
	}
}

// within polls until done, for a while.
func within(ctx context.Context, done func(context.Context) bool) bool {
	deadline := time.Now().Add(waitLimit)
	for !done(ctx) {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(5 * time.Millisecond)
	}
	return true
}

// create creates objects: those that others are about first and side by side, policies and groups
// in their order.
func (r *replay) create(t *testing.T, objects []*unstructured.Unstructured) (stored []*unstructured.Unstructured, refused []refusedObject) {
	t.Helper()
	var early, late []*unstructured.Unstructured
	for _, o := range objects {
		switch o.GetKind() {
		case "Namespace":
			r.putNamespace(t, o.GetName(), o.GetLabels())
		case "Node", "Pod", "ExternalEntity", "Service":
			early = append(early, o.DeepCopy())
		case "ServiceAccount":
			r.must(t, r.client.Create(t.Context(), o.DeepCopy()))
			stored = append(stored, o)
		default:
			late = append(late, o.DeepCopy())
		}
	}
	sideBySide(early, func(o *unstructured.Unstructured) { r.must(t, r.createWithStatus(t.Context(), o)) })
	stored = append(stored, early...)
	for _, o := range late {
		err := r.client.Create(t.Context(), o)
		var status apierrors.APIStatus
		switch {
		case err == nil:
			stored = append(stored, o)
		case errors.As(err, &status):
			refused = append(refused, refusedObject{status.Status().Code, o.GetKind(), o.GetNamespace(), o.GetName(), status.Status().Message})
		default:
			t.Fatal(err)
		}
	}
	return stored, refused
}

func (r *replay) must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// createWithStatus creates an object and gives it its status. A Pod has to wait for the account of
// its Namespace.
func (r *replay) createWithStatus(ctx context.Context, o *unstructured.Unstructured) error {
	status, has := o.Object["status"]
	var err error
	within(ctx, func(ctx context.Context) bool {
		err = r.client.Create(ctx, o)
		return err == nil || !strings.Contains(err.Error(), "serviceaccount")
	})
	if err != nil || !has {
		return err
	}
	o.Object["status"] = status
	return r.client.Status().Update(ctx, o)
}

// sideBySide calls do for every object, some at a time.
func sideBySide(objects []*unstructured.Unstructured, do func(*unstructured.Unstructured)) {
	var running sync.WaitGroup
	slots := make(chan struct{}, 8)
	for _, o := range objects {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			do(o)
		})
	}
	running.Wait()
}

// clear deletes what was stored, the last first, and waits until nothing is served any more.
func (r *replay) clear(t *testing.T, stored []*unstructured.Unstructured) {
	var last []*unstructured.Unstructured
	for _, o := range slices.Backward(stored) {
		switch o.GetKind() {
		case "NetworkPolicy", "ClusterNetworkPolicy":
			r.must(t, r.client.Delete(context.WithoutCancel(t.Context()), o))
		default:
			last = append(last, o)
		}
	}
	sideBySide(last, func(o *unstructured.Unstructured) {
		r.must(t, r.client.Delete(context.WithoutCancel(t.Context()), o, client.GracePeriodSeconds(0)))
	})
	empty := within(context.WithoutCancel(t.Context()), func(ctx context.Context) bool {
		got, err := r.served(ctx)
		return err == nil && len(got["networkpolicies"].([]any))+len(got["addressgroups"].([]any))+len(got["appliedtogroups"].([]any)) == 0
	})
	if !empty {
		t.Error("something is served though everything is deleted")
	}
}

// putNamespace creates a Namespace or gives it its labels.
func (r *replay) putNamespace(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	n := &corev1.Namespace{}
	n.Name, n.Labels = name, labels
	if !r.namespaces[name] {
		r.must(t, r.client.Create(t.Context(), n))
		r.namespaces[name] = true
		return
	}
	edit(t, r.client, n, func() {
		n.Labels = map[string]string{corev1.LabelMetadataName: name}
		maps.Copy(n.Labels, labels)
	})
}

// dropNamespaces removes the Namespaces that former cases needed and this one does not have. There
// is nothing left in them, so they need not wait for the controller that looks.
func (r *replay) dropNamespaces(t *testing.T, c *recordedCase) {
	t.Helper()
	for name := range r.namespaces {
		if name == "vm-ns" || strings.Contains(" "+c.namespace, " "+name+" ") {
			continue
		}
		delete(r.namespaces, name)
		n := &corev1.Namespace{}
		n.Name = name
		r.must(t, r.client.Delete(t.Context(), n))
		if err := r.client.Get(t.Context(), client.ObjectKey{Name: name}, n); err == nil {
			n.Spec.Finalizers = nil
			_, err := r.kube.CoreV1().Namespaces().Finalize(t.Context(), n, finalizeOptions)
			r.must(t, client.IgnoreNotFound(err))
		}
	}
}

// offline is what the command computes from the same input.
func offline(t *testing.T, c *recordedCase) map[string]any {
	t.Helper()
	var docs []string
	for _, name := range policytest.Ambient() {
		docs = append(docs, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": %q}}`, name))
	}
	for _, o := range c.objects {
		raw, err := json.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, string(raw))
	}
	path := filepath.Join(t.TempDir(), "input.yaml")
	if err := os.WriteFile(path, []byte(strings.Join(docs, "\n---\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errOut := run(t, "policy", "compute", "-f", path, "-o", "json")
	var got map[string]any
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 {
		t.Fatalf("policy compute: exit %d, %v\n%s", code, err, errOut)
	}
	return got
}
