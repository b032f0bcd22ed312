package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/nephele-io/nephele/internal/platform/certs"
)

// here is a client of a handler in this process.
func here(t *testing.T, handler http.Handler) within {
	t.Helper()
	dir := t.TempDir()
	store, err := certs.Open(dir, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := store.Authority("ca")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Certificate("client", authority, certs.Profile{CommonName: "somebody", Client: true}); err != nil {
		t.Fatal(err)
	}
	return within{&inProcess{handler: handler, host: "server:1", file: store.CertFile("client"), now: time.Now}, nowhere{}}
}

// nowhere is the way to other addresses.
type nowhere struct{}

var errElsewhere = errors.New("elsewhere")

func (nowhere) RoundTrip(*http.Request) (*http.Response, error) { return nil, errElsewhere }

func request(t *testing.T, ctx context.Context, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// What a handler says comes bit by bit, as it flushes; closing the body ends it.
func TestInProcessStream(t *testing.T) {
	ended := make(chan struct{})
	client := here(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		if r.RequestURI != "/a/b?c=d" || r.TLS.PeerCertificates[0].Subject.CommonName != "somebody" {
			t.Errorf("%s by %v", r.RequestURI, r.TLS.PeerCertificates[0].Subject)
		}
		w.Header().Set("X-First", "yes")
		w.WriteHeader(http.StatusAccepted)
		w.Header().Set("X-Late", "too late")
		for i := 0; ; i++ {
			fmt.Fprintln(w, "line", i)
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
				return
			default:
			}
		}
	}))
	resp, err := client.RoundTrip(request(t, t.Context(), "https://server:1/a/b?c=d"))
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusAccepted || resp.Header.Get("X-First") != "yes" || resp.Header.Get("X-Late") != "" {
		t.Errorf("%s %v", resp.Status, resp.Header)
	}
	some := make([]byte, 7)
	for i := range 3 {
		if _, err := io.ReadFull(resp.Body, some); err != nil || string(some) != fmt.Sprintf("line %d\n", i) {
			t.Fatalf("%q, %v", some, err)
		}
	}
	resp.Body.Close()
	<-ended
}

// A handler that gives up leaves half an answer, and never a whole one; one that never begins is
// left when the request is canceled.
func TestInProcessBroken(t *testing.T) {
	client := here(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/half":
			fmt.Fprint(w, "half")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case "/none":
			panic(http.ErrAbortHandler)
		}
		<-r.Context().Done()
	}))
	resp, err := client.RoundTrip(request(t, t.Context(), "https://server:1/half"))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(resp.Body); string(text) != "half" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := client.RoundTrip(request(t, t.Context(), "https://server:1/none")); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go cancel()
	if _, err := client.RoundTrip(request(t, ctx, "https://server:1/stuck")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// What is not for the server in this process, or has credentials of its own, or changes the
// protocol, takes the other way: the certificate is never lent to it.
func TestInProcessElsewhere(t *testing.T) {
	client := here(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it is answered here") }))
	other := request(t, t.Context(), "https://other:1/")
	token := request(t, t.Context(), "https://server:1/")
	token.Header.Set("Authorization", "Bearer x")
	upgrade := request(t, t.Context(), "https://server:1/")
	upgrade.Header.Set("Upgrade", "websocket")
	for _, req := range []*http.Request{other, token, upgrade} {
		if _, err := client.RoundTrip(req); !errors.Is(err, errElsewhere) {
			t.Errorf("%v: %v", req.URL, err)
		}
	}
	if err := os.Remove(client.file); err != nil {
		t.Fatal(err)
	}
	if _, err := client.RoundTrip(request(t, t.Context(), "https://server:1/")); !errors.Is(err, errElsewhere) {
		t.Errorf("without a certificate: %v", err)
	}
}

// In the process a caller is the same user as on a connection, and gets the same answers.
func TestInProcessIsTheSame(t *testing.T) {
	cp := server(t)
	inside, err := kubernetes.NewForConfig(cp.InProcess())
	if err != nil {
		t.Fatal(err)
	}
	whoami := func(c kubernetes.Interface) authenticationv1.UserInfo {
		t.Helper()
		review, err := c.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, create)
		if err != nil {
			t.Fatal(err)
		}
		return review.Status.UserInfo
	}
	if in, out := whoami(inside), whoami(clientset(t)); !reflect.DeepEqual(in, out) || in.Username == "" {
		t.Errorf("%+v in the process, %+v outside", in, out)
	}
	anonymous, err := kubernetes.NewForConfig(rest.AnonymousClientConfig(cp.InProcess()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := anonymous.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("a client without credentials has the administrator's")
	}
	ns := newNamespace(t, "inside")
	maps := inside.CoreV1().ConfigMaps(ns)
	changes, err := maps.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=it"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := maps.Create(t.Context(), configMap("it"), create); err != nil {
		t.Fatal(err)
	}
	if e := <-changes.ResultChan(); e.Type != watch.Added {
		t.Errorf("%+v", e)
	}
	changes.Stop()
	if list, err := maps.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) == 0 {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := maps.Create(t.Context(), configMap("it"), create); err == nil || !strings.Contains(err.Error(), "already exists") {
		t.Error(err)
	}
}
