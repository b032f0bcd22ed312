package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/enroll"
	"github.com/nephele-io/nephele/internal/enroll/credential"
	"github.com/nephele-io/nephele/internal/tier"
)

// TestKeysRotateEverywhere: with another key of every list, some taken up by a process that runs
// and some by the next one, no host enrolls anew, copies of kubeconfigs and tokens go on counting,
// and nothing of the cloud changes but signatures.
func TestKeysRotateEverywhere(t *testing.T) {
	t.Parallel()
	tier.OnlyLong(t, "TestKeysRotate (controlplane), TestAuthoritiesRotate (enroll), TestKeysOfHistoryRotate, TestKeysOfASetRotate, TestKeyOfRecordsChanges")
	at := freeAddress(t)
	im := importAccount(t, newCluster(t, "--api-listen", at), hybridCloud)
	policies := decodePolicies(t, policiesYAML)
	next := im.oracle.copy()
	next.policies = append(next.policies, policies[0])
	im.step("policy", next, func() { im.create(policies[0]) })
	db := firstWithRole(hybridCloud, "db")
	im.shows(vmNamespace, db, "vms/db-from-app")

	kubeconfig := filepath.Join(im.c.dir, "kubeconfig")
	nephele := func(args ...string) string {
		t.Helper()
		code, out, errs := run(t, args...)
		if code != 0 {
			t.Fatalf("nephele %s: %d\n%s%s", strings.Join(args, " "), code, out, errs)
		}
		return out
	}
	// A host with a certificate, and one with a ServiceAccount.
	hosts := []client.Object{}
	for i, name := range []string{"certified", "served"} {
		hosts = append(hosts, &v1alpha1.ExternalNode{ObjectMeta: metav1.ObjectMeta{Namespace: vmNamespace, Name: name},
			Spec: v1alpha1.ExternalNodeSpec{Interfaces: []v1alpha1.NetworkInterface{{IPs: []string{fmt.Sprintf("192.0.2.%d", i+1)}}}}})
	}
	for _, h := range hosts {
		im.create(h)
	}
	out := nephele("enroll-token", vmNamespace+"/certified", "--for", "10m", "--kubeconfig", kubeconfig)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	invitation, err := credential.ParseInvitation(lines[len(lines)-1])
	must(t, err)
	h := &rotatingHost{t: t, at: at}
	h.key, err = credential.NewKey()
	must(t, err)
	h.papers, err = credential.Join(t.Context(), "https://"+at, invitation, nil, h.key)
	must(t, err)
	served := filepath.Join(t.TempDir(), "served")
	nephele("enroll", vmNamespace+"/served", "--output", served, "--kubeconfig", kubeconfig)
	config, err := clientcmd.BuildConfigFromFlags("", served)
	must(t, err)
	claims, _ := credential.ParseToken(config.BearerToken)
	lives := func(when string) {
		t.Helper()
		h.asks(when)
		if _, err := credential.RenewToken(t.Context(), config, claims); err != nil {
			t.Errorf("%s: the host with a ServiceAccount: %v", when, err)
		}
	}
	lives("at first")
	identity := func() string {
		n := &v1alpha1.ExternalNode{}
		must(t, im.c.client.Get(t.Context(), client.ObjectKeyFromObject(hosts[0]), n))
		return n.Annotations[enroll.AnnotationIdentity]
	}
	enrolled, before := identity(), withoutSignatures(im.estateNow())
	signatures := signaturesIn(im.estateNow())
	unchanged := func(when string) {
		t.Helper()
		if d := gocmp.Diff(before, withoutSignatures(im.estateNow())); d != "" {
			t.Errorf("%s: the cloud has changed (-before +after):\n%s", when, d)
		}
	}

	for _, name := range []string{"records", "hosts", "history"} {
		nephele("keys", "rotate", name, "--kubeconfig", kubeconfig)
	}
	lives("just after the keys in the cluster have changed")
	// A process that runs takes them up within a minute.
	eventually(t, "records are signed anew", func(context.Context) (bool, string) {
		now := signaturesIn(im.estateNow())
		return len(now) > 0 && len(now) == len(signatures) && gocmp.Diff(signatures, now) != "", fmt.Sprint(now)
	})
	unchanged("when records are signed anew")
	h.renews("from a process that knows both")
	if n := strings.Count(h.papers.Authority, "BEGIN CERTIFICATE"); n != 2 {
		t.Errorf("the host hears of %d authorities", n)
	}
	im.c.stop()
	for _, name := range []string{"cluster-ca", "service-accounts", "secrets", "api-ca", "front-proxy-ca", "webhook-ca", "etcd-ca"} {
		nephele("keys", "rotate", name, "--data-dir", im.c.dir)
	}
	im.c.start()
	im.c.waitReady()
	lives("after the restart")
	if identity() != enrolled {
		t.Error("the host has enrolled anew")
	}
	unchanged("after the restart")
	moved := firstWithRole(hybridCloud, "app")
	im.step("enforcement goes on", im.oracle.withRole(moved, "db"), func() { im.setRole(moved, "db") })
	im.shows(vmNamespace, moved, "vms/db-from-app")
	out = nephele("keys", "list", "--kubeconfig", kubeconfig)
	for _, what := range []string{"records", "hosts", "history"} {
		if n := len(regexp.MustCompile(`(?m)^`+what+` +[0-9a-f]{16} `).FindAllString(out, -1)); n != 2 {
			t.Errorf("%d keys of %s in\n%s", n, what, out)
		}
	}
	if out := nephele("keys", "list", "--data-dir", im.c.dir); len(regexp.MustCompile(`(?m)^secrets +[0-9a-f]{16} `).FindAllString(out, -1)) != 1 {
		t.Errorf("the former key of Secrets is still there:\n%s", out)
	}
	if out := nephele("history", "-n", vmNamespace, "--kubeconfig", kubeconfig); strings.Contains(out, "unproven") || !strings.Contains(out, "db-from-app") {
		t.Error(out)
	}
}

// signature is the tag with a signature, as estateNow shows it.
var signature = regexp.MustCompile(regexp.QuoteMeta(`"`+cloud.TagSignature+`":"`) + `[^"]*"`)

func withoutSignatures(estate map[string]string) map[string]string {
	out := map[string]string{}
	for id, text := range estate {
		out[id] = signature.ReplaceAllString(text, "")
	}
	return out
}

func signaturesIn(estate map[string]string) map[string]string {
	out := map[string]string{}
	for id, text := range estate {
		if found := signature.FindString(text); found != "" {
			out[id] = found
		}
	}
	return out
}

// rotatingHost is a host with a certificate, which speaks as its agent does.
type rotatingHost struct {
	t      *testing.T
	at     string
	key    credential.Key
	papers credential.Papers
}

func (h *rotatingHost) client() *http.Client {
	h.t.Helper()
	pair, err := tls.X509KeyPair([]byte(h.papers.Certificate), h.key.Private)
	must(h.t, err)
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(h.papers.Authority)) {
		h.t.Fatal("no authority")
	}
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
		Certificates: []tls.Certificate{pair}, RootCAs: roots, ServerName: credential.ServerName, MinVersion: tls.VersionTLS12}}}
}

// asks fails unless the host is served what is computed for it.
func (h *rotatingHost) asks(when string) {
	h.t.Helper()
	query := url.Values{"fieldSelector": {"nodeName=" + vmNamespace + "/certified"}}.Encode()
	eventually(h.t, when+": the host is served", func(ctx context.Context) (bool, string) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+h.at+"/apis/controlplane.antrea.io/v1beta2/networkpolicies?"+query, nil)
		must(h.t, err)
		r.Header.Set("Accept", "application/json")
		answer, err := h.client().Do(r)
		if err != nil {
			return false, err.Error()
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
		return err == nil && answer.StatusCode == http.StatusOK && json.Valid(text), answer.Status
	})
}

// renews gives the host its next certificate.
func (h *rotatingHost) renews(when string) {
	h.t.Helper()
	next, err := credential.NewKey()
	must(h.t, err)
	papers, err := credential.Renewal(h.t.Context(), h.client(), "https://"+h.at, next)
	if err != nil {
		h.t.Fatalf("%s: %v", when, err)
	}
	h.key, h.papers = next, papers
	h.asks(when)
}
