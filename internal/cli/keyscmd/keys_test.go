package keyscmd

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	nephelev1 "github.com/nephele-io/nephele/api/nephele/v1alpha1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/cloud/recordkey"
	"github.com/nephele-io/nephele/internal/enroll"
	"github.com/nephele-io/nephele/internal/history"
	"github.com/nephele-io/nephele/internal/platform/keyring/vault"
)

// bench is a cluster with keys, an account and three hosts, and a clock.
type bench struct {
	*testing.T
	client client.Client
	now    time.Time
	skew   time.Duration
}

func newBench(t *testing.T) *bench {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), cloudv1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme), nephelev1.AddToScheme(scheme), setv1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	b := &bench{T: t, now: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}
	b.client = interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).Build(), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if strings.HasPrefix(o.GetGenerateName(), "nephele-time-") {
				if len(opts) != 1 || opts[0] != client.DryRunAll {
					t.Error("the question for the time is stored")
				}
				o.SetCreationTimestamp(metav1.NewTime(b.now.Add(b.skew)))
				return nil
			}
			return c.Create(ctx, o, opts...)
		},
	})
	for _, p := range []vault.Place{recordkey.Place(), enroll.Authorities(), history.Place()} {
		if _, _, _, err := p.Load(t.Context(), b.client, namespace, rand.Reader, b.now); err != nil {
			t.Fatal(err)
		}
	}
	host := func(name string, notes map[string]string) client.Object {
		return &v1alpha1.ExternalNode{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: name, Annotations: notes}}
	}
	ends := b.now.Add(5 * 24 * time.Hour).Format(time.RFC3339)
	for _, o := range []client.Object{
		&cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "cloud", Name: "prod"}},
		host("web", map[string]string{enroll.AnnotationIdentity: "1", enroll.AnnotationEnds: ends, enroll.AnnotationAuthority: b.of("hosts")[0]}),
		host("older", map[string]string{enroll.AnnotationIdentity: "2", enroll.AnnotationEnds: ends}),
		host("ended", map[string]string{enroll.AnnotationIdentity: "3", enroll.AnnotationEnds: b.now.Add(-time.Hour).Format(time.RFC3339)}),
		host("never", nil),
		&nephelev1.ClusterPolicyRevision{ObjectMeta: metav1.ObjectMeta{Name: "acnp-x-1"}, Spec: nephelev1.RevisionSpec{Proof: b.of("history")[0] + ":x"}},
		&setv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "east", Annotations: map[string]string{enroll.AnnotationIdentity: "4", enroll.AnnotationEnds: ends}}},
	} {
		if err := b.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// of are the IDs of the keys of a list.
func (b *bench) of(name string) []string {
	b.Helper()
	for _, l := range inCluster(b.Context(), b.client, func() time.Time { return b.now }) {
		if l.Name == name {
			r, err := l.Read(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			return r.IDs()
		}
	}
	b.Fatal("no keys", name)
	return nil
}

// run is a command of a person who types something.
func (b *bench) run(typed string, args ...string) (string, error) {
	b.Helper()
	cmd := Command(Needs{Client: func(*rest.Config) (client.Client, error) { return b.client, nil }, Now: func() time.Time { return b.now }})
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetIn(strings.NewReader(typed))
	cmd.SetArgs(append(args, "--kubeconfig", b.kubeconfig()))
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err := cmd.ExecuteContext(b.Context())
	return out.String(), err
}

// TestRotate: another key becomes the current one, and what needs the former one is listed.
func TestRotate(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"records", "hosts", "history"} {
		before := b.of(name)
		out, err := b.run("", "rotate", name)
		after := b.of(name)
		if err != nil || len(after) != 2 || after[1] != before[0] || !strings.Contains(out, "The key "+after[0]+" is the current one of "+name) {
			t.Errorf("%v: %s", err, out)
		}
	}
	out, err := b.run("", "list")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		b.of("records")[0] + " current 2030-01-02 account cloud/prod", b.of("records")[1] + " former 2030-01-02 account cloud/prod",
		b.of("hosts")[0] + " current 2030-01-02 nothing", b.of("hosts")[1] + " former, until 2030-01-16 2030-01-02 cluster east, host vms/older, host vms/web",
		b.of("history")[0] + " current 2030-01-02 nothing", b.of("history")[1] + " former 2030-01-02 1 revision", "records signs the records", "hosts, members and the controller",
	} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	b.now = b.now.Add(15 * 24 * time.Hour)
	if out, err := b.run("", "list"); err != nil || !strings.Contains(strings.Join(strings.Fields(out), " "), b.of("hosts")[1]+" over") {
		t.Errorf("%v: %s", err, out)
	}
	b.skew = time.Hour
	if _, err := b.run("", "rotate", "hosts"); err == nil || !strings.Contains(err.Error(), "the clock of this machine says") {
		t.Error(err)
	}
	if _, err := b.run("", "rotate", "no"); err == nil || !strings.Contains(err.Error(), `no keys "no" here: want one of records, hosts, history`) {
		t.Error(err)
	}
}

// TestDistrust: belief in a key ends only for somebody who has seen what that means, and says so.
func TestDistrust(t *testing.T) {
	b := newBench(t)
	first := b.of("hosts")[0]
	for _, typed := range []string{"", "yes\n", "\n", first[:8] + "\n"} {
		out, err := b.run(typed, "rotate", "hosts", "--distrust", first)
		if !errors.Is(err, terminal.ErrNo) || !strings.Contains(out, "Nothing was changed") {
			t.Errorf("%q: %v: %s", typed, err, out)
		}
		for _, want := range []string{"must enroll or join anew", "host vms/web", "host vms/older", "cluster east"} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in %s", want, out)
			}
		}
		if strings.Contains(out, "ended") || strings.Contains(out, "never") {
			t.Errorf("hosts without a certificate are told: %s", out)
		}
	}
	if got := b.of("hosts"); len(got) != 1 || got[0] != first {
		t.Fatal(got)
	}
	if out, err := b.run(first+"\n", "rotate", "hosts", "--distrust", first); err != nil || !strings.Contains(out, "is not believed any more") {
		t.Errorf("%v: %s", err, out)
	}
	if got := b.of("hosts"); len(got) != 1 || got[0] == first {
		t.Error("the current key was not replaced", got)
	}
	// A former one goes, and no other is made.
	if _, err := b.run("", "rotate", "records"); err != nil {
		t.Fatal(err)
	}
	both := b.of("records")
	if _, err := b.run("", "rotate", "records", "--distrust", both[1], "--yes"); err != nil {
		t.Error(err)
	}
	if got := b.of("records"); len(got) != 1 || got[0] != both[0] {
		t.Error(got, both)
	}
	if _, err := b.run("", "rotate", "records", "--distrust", both[1], "--yes"); err == nil || !strings.Contains(err.Error(), "there is no key") {
		t.Error(err)
	}
}

// TestOverStaysOver: an authority whose time is over is not believed again when belief ends in the
// one that took its place.
func TestOverStaysOver(t *testing.T) {
	b := newBench(t)
	for range 2 {
		if out, err := b.run("", "rotate", "hosts"); err != nil || !strings.Contains(out, "the server proves itself by it from") {
			t.Fatal(out, err)
		}
		b.now = b.now.Add(10 * 24 * time.Hour)
	}
	all := b.of("hosts")
	if len(all) != 3 {
		t.Fatal(all)
	}
	if _, err := b.run("", "rotate", "hosts", "--distrust", all[1], "--yes"); err != nil {
		t.Fatal(err)
	}
	if got := b.of("hosts"); len(got) != 1 || got[0] != all[0] {
		t.Errorf("believed are %v of %v", got, all)
	}
	// What is said of a new key is true of one that takes the place of a key that is gone.
	out, err := b.run("", "rotate", "hosts", "--distrust", all[0], "--yes")
	if err != nil || strings.Contains(out, "from 2030-") || !strings.Contains(out, "is the current one of hosts.\n") {
		t.Errorf("%v: %s", err, out)
	}
}

// kubeconfig is one that leads nowhere: the client is given.
func (b *bench) kubeconfig() string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]\ncontexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}
