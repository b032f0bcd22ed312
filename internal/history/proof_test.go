package history

import (
	"context"
	"crypto/rand"
	"reflect"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nephele-io/nephele/api/nephele/v1alpha1"
	"github.com/nephele-io/nephele/internal/platform/keyring"
)

// notary is a cluster with keys, and a clock.
type notary struct {
	*testing.T
	client client.Client
	clock  *testclock.FakeClock
	*Keys
}

func newNotary(t *testing.T) *notary {
	s := runtime.NewScheme()
	if err := corev1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	n := &notary{T: t, client: fake.NewClientBuilder().WithScheme(s).Build(), clock: testclock.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))}
	n.Keys = NewKeys(KeysOptions{Client: n.client, Reader: n.client, Namespace: "kube-system", Clock: n.clock, Log: logr.Discard()})
	return n
}

// proven is a revision with a proof.
func (n *notary) proven() *Revision {
	n.Helper()
	r := &Revision{Name: "shop/annp-p-3", Spec: v1alpha1.RevisionSpec{
		Object: v1alpha1.RevisedObject{Group: "crd.antrea.io", Version: "v1beta1", Kind: "NetworkPolicy", Namespace: "shop", Name: "p", UID: "u"},
		Number: 3, Change: v1alpha1.RevisionChanged, Generation: 4, Merged: 1, Time: metav1.NewTime(n.clock.Now()),
		Author: v1alpha1.RevisionAuthor{User: "alice", Manager: "kubectl"}, Hash: "h", Content: "{}", Compressed: "c", Size: 2,
	}}
	proof, err := n.Prove(n.Context(), &r.Spec)
	if err != nil {
		n.Fatal(err)
	}
	r.Spec.Proof = proof
	return r
}

// check is what readers are told.
func (n *notary) check(r *Revision) string {
	n.Helper()
	if err := CheckAll(n.Context(), n.client, "kube-system", []*Revision{r}); err != nil {
		n.Fatal(err)
	}
	return r.Unproven
}

func (n *notary) change(next func(keyring.Ring) (keyring.Ring, error)) {
	n.Helper()
	if err := Place().Change(n.Context(), n.client, "kube-system", next); err != nil {
		n.Fatal(err)
	}
	n.clock.Step(rereadAfter)
}

// TestProofs: a revision is proven as it was written, where it was written, and in no other way.
func TestProofs(t *testing.T) {
	n := newNotary(t)
	if why := n.check(n.proven()); why != "" {
		t.Fatal(why)
	}
	// Whatever field of it is another one.
	var fields func(v reflect.Value, at string)
	seen := 0
	fields = func(v reflect.Value, at string) {
		for i := range v.NumField() {
			name := at + v.Type().Field(i).Name
			r := n.proven()
			of := reflect.ValueOf(&r.Spec).Elem()
			for part := range strings.SplitSeq(name, ".") {
				of = of.FieldByName(part)
			}
			switch {
			case of.Type() == reflect.TypeFor[metav1.Time]():
				of.Set(reflect.ValueOf(metav1.NewTime(n.clock.Now().Add(time.Second))))
			case of.Kind() == reflect.Struct:
				fields(of, name+".")
				continue
			case of.Kind() == reflect.String:
				of.SetString(of.String() + "x")
			case of.Kind() == reflect.Int64:
				of.SetInt(of.Int() + 1)
			default:
				t.Fatalf("%s is of a kind that this test does not change: %s", name, of.Kind())
			}
			if seen++; n.check(r) == "" {
				t.Errorf("%s is another one, and it is proven", name)
			}
		}
	}
	fields(reflect.ValueOf(n.proven().Spec), "")
	if seen < 17 {
		t.Errorf("only %d fields", seen)
	}
	moved := n.proven()
	moved.Name = "other/annp-p-3"
	if why := n.check(moved); why != errMoved.Error() {
		t.Error(why)
	}
	none := n.proven()
	none.Spec.Proof = ""
	if why := n.check(none); why != errNoProof.Error() {
		t.Error(why)
	}
	// What moves from one text to the next is not the same.
	shifted := n.proven()
	shifted.Spec.Author.User, shifted.Spec.Author.Manager = "alic", "ekubectl"
	if n.check(shifted) == "" {
		t.Error("texts run together")
	}
}

// TestKeysOfHistoryRotate: another key is published before it signs anything; what the former one
// has signed is proven until belief in that ends.
func TestKeysOfHistoryRotate(t *testing.T) {
	n := newNotary(t)
	before := n.proven()
	former := ProofKey(before.Spec.Proof)
	n.change(func(r keyring.Ring) (keyring.Ring, error) {
		made, err := Place().Make(rand.Reader, n.clock.Now())
		if err != nil {
			return nil, err
		}
		return r.Rotated(made)
	})
	after := n.proven()
	if ProofKey(after.Spec.Proof) == former || n.check(after) != "" || n.check(before) != "" || !n.Proven(&before.Spec) {
		t.Errorf("%q %q", n.check(after), n.check(before))
	}
	n.change(func(r keyring.Ring) (keyring.Ring, error) { return r.Without(former) })
	n.proven()
	if n.check(before) != errOtherKey.Error() || n.check(after) != "" || n.Proven(&before.Spec) {
		t.Errorf("%q %q", n.check(after), n.check(before))
	}
	var published corev1.ConfigMap
	if err := n.client.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: PublishedConfigMap}, &published); err != nil || strings.Contains(published.Data[publishedEntry], "PRIVATE") {
		t.Error(published.Data, err)
	}
	// Nobody proves anything where the keys cannot be read.
	if err := n.client.Delete(t.Context(), &published); err != nil {
		t.Fatal(err)
	}
	if err := CheckAll(t.Context(), n.client, "kube-system", []*Revision{after}); !apierrors.IsNotFound(err) || after.Unproven == "" {
		t.Error(err, after.Unproven)
	}
}

// TestBeliefEndsWithoutRevision: a key that is not believed any more is not published any more
// either, although nobody writes a policy.
func TestBeliefEndsWithoutRevision(t *testing.T) {
	n := newNotary(t)
	before := n.proven()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Keep(ctx) }()
	for !n.clock.HasWaiters() {
		goruntime.Gosched()
	}
	err := Place().Change(t.Context(), n.client, "kube-system", func(r keyring.Ring) (keyring.Ring, error) {
		made, err := Place().Make(rand.Reader, n.clock.Now())
		return keyring.Ring{made}, err
	})
	if err != nil {
		t.Fatal(err)
	}
	n.clock.Step(rereadAfter)
	for end := time.Now().Add(time.Minute); n.check(before) != errOtherKey.Error(); goruntime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("it is believed still")
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// all are the revisions in namespaces.
func (b *bench) all() []v1alpha1.PolicyRevision {
	b.t.Helper()
	var out v1alpha1.PolicyRevisionList
	if err := b.api.List(b.t.Context(), &out); err != nil {
		b.t.Fatal(err)
	}
	return out.Items
}

// TestForgedAhead: a revision that somebody else has put where the next one belongs, and that says
// the same, is not taken for the recorder's own.
func TestForgedAhead(t *testing.T) {
	n := newNotary(t)
	b := newBench(t, DefaultBounds())
	b.Recorder.Proofs = n.Keys
	b.Synced()
	o := policyAt("shop", "p", 1, 5)
	b.Changed(o)
	b.run(time.Second)
	all := b.all()
	if len(all) != 1 || n.check(&Revision{Name: all[0].Namespace + "/" + all[0].Name, Spec: all[0].Spec}) != "" {
		t.Fatalf("%+v", all)
	}
	forged := all[0].DeepCopy()
	forged.ResourceVersion, forged.Name, forged.Spec.Number = "", strings.TrimSuffix(forged.Name, "1")+"2", 2
	next := policyAt("shop", "p", 2, 7)
	c, err := b.kinds.byName[[2]string{"crd.antrea.io", "NetworkPolicy"}].contentOf(next)
	if err != nil {
		t.Fatal(err)
	}
	forged.Spec.Hash, forged.Spec.Generation, forged.Spec.Change, forged.Spec.Content = c.hash, 2, v1alpha1.RevisionChanged, "{}"
	if err := b.api.Create(t.Context(), forged); err != nil {
		t.Fatal(err)
	}
	b.Changed(next)
	b.run(time.Second)
	all = b.all()
	proven := 0
	for i := range all {
		if n.check(&Revision{Name: all[i].Namespace + "/" + all[i].Name, Spec: all[i].Spec}) == "" {
			proven++
		}
	}
	if len(all) != 3 || proven != 2 {
		t.Errorf("%d revisions, %d proven", len(all), proven)
	}
}
