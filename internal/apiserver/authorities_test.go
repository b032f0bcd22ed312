package apiserver

import (
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nephele-io/nephele/internal/apiserver/registration"
	"github.com/nephele-io/nephele/internal/enroll"
	"github.com/nephele-io/nephele/internal/platform/keyring"
)

// TestAuthoritiesAreFollowed: a server that runs takes certificates of another authority as soon as
// its desk knows of that, goes on proving itself by the first one, and publishes until when.
func TestAuthoritiesAreFollowed(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).Build()
	desk, err := enroll.OpenDesk(t.Context(), enroll.DeskOptions{Client: c, Live: c, Namespace: "kube-system", Clock: clock.RealClock{}, Log: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	place := enroll.Authorities()
	change := func(next func(keyring.Ring) (keyring.Ring, error)) {
		t.Helper()
		err := place.Change(t.Context(), c, "kube-system", next)
		if err = errors.Join(err, desk.Reread(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	serving, err := (&Hosts{Desk: desk}).serving(logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	first, _ := serving[0].CurrentCertKeyContent()
	believed := authoritiesOfHosts{desk}
	alone := string(believed.CurrentCABundleContent())
	change(func(r keyring.Ring) (keyring.Ring, error) {
		made, err := place.Make(rand.Reader, time.Now())
		if err != nil {
			return nil, err
		}
		return enroll.NextAuthorities(r, made, time.Now())
	})
	if both := string(believed.CurrentCABundleContent()); !strings.HasPrefix(both, alone) || strings.Count(both, "BEGIN CERTIFICATE") != 2 {
		t.Error(both)
	}
	if _, ok := believed.VerifyOptions(); !ok {
		t.Error("no options")
	}
	if now, _ := serving[0].CurrentCertKeyContent(); string(now) != string(first) {
		t.Error("the server proves itself by another authority at once")
	}
	r := &registration.Registration{Client: c, Service: types.NamespacedName{Namespace: "kube-system", Name: "antrea"}, Hosts: desk}
	published := func() map[string]string {
		t.Helper()
		if err := r.PublishAuthorities(t.Context(), []byte("bundle")); err != nil {
			t.Fatal(err)
		}
		var kept corev1.ConfigMap
		if err := r.Client.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: registration.CAConfigMap}, &kept); err != nil {
			t.Fatal(err)
		}
		return kept.Data
	}
	if turns, err := time.Parse(time.RFC3339, published()[enroll.TurnsKey]); err != nil || time.Until(turns) > enroll.Beside || time.Until(turns) < enroll.Beside-time.Hour {
		t.Error(turns, err)
	}
	change(func(r keyring.Ring) (keyring.Ring, error) { return r.Without(r[1].ID) })
	if now, _ := serving[0].CurrentCertKeyContent(); string(now) == string(first) {
		t.Error("the server proves itself by an authority that is not believed")
	}
	if data := published(); data[enroll.TurnsKey] != "" || strings.Contains(data[enroll.AuthorityKey], alone) {
		t.Error(data)
	}
}
