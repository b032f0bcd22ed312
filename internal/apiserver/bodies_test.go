package apiserver_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/internal/apiserver/stats"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
)

// send posts a body as the bearer of a token, and returns status and answer.
func (w *world) send(t *testing.T, c *http.Client, token, path, media string, body io.Reader) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+w.address+path, body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	if media != "" {
		request.Header.Set("Content-Type", media)
	}
	response, err := c.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

const (
	summariesPath = "/apis/controlplane.antrea.io/v1beta2/nodestatssummaries"
	statusPath    = "/apis/controlplane.antrea.io/v1beta2/networkpolicies/u1/status"
	trafficPath   = "/apis/analysis.nephele.io/v1alpha1/trafficreports"
	plansPath     = "/apis/analysis.nephele.io/v1alpha1/planreviews"
)

// padding is a field that no message has.
func padding(n int) []byte {
	return append(binary.AppendUvarint(binary.AppendUvarint(nil, 1000<<3|2), uint64(n)), make([]byte, n)...)
}

// TestBodiesAreWeighed: what is too large, or would become so, is refused before it is decoded, and
// so is what would be decoded to something else. The heap does not feel it.
func TestBodiesAreWeighed(t *testing.T) {
	w := &world{store: watchstore.New(watchstore.Options{}), reports: &reportBook{}, dir: t.TempDir(), reviews: &oracle{}, book: stats.New(clock.RealClock{})}
	w.start(t, "127.0.0.1:0")
	w.store.Publish(watchstore.Changes{})
	c := stranger(t)
	summary := func(inside []byte) []byte {
		raw, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "controlplane.antrea.io/v1beta2", Kind: "NodeStatsSummary"}, Raw: inside}).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return append([]byte("k8s\x00"), raw...)
	}
	list := func(before, element string, size int) []byte {
		return []byte(strings.Replace(before, "LIST", repeated(element, size), 1))
	}
	honest := list(`{"metadata":{"name":"n"},"antreaNetworkPolicies":LIST}`,
		`{"networkPolicy":{"type":"AntreaNetworkPolicy","namespace":"shop","name":"web","uid":"6b6f0c0e-5d2e-4f6e-9a50-2f2b1d0c0b0a"},`+
			`"ruleTrafficStats":[{"name":"allow-web","trafficStats":{"packets":12345,"bytes":1234567,"sessions":123}}]}`, 250<<10)
	for name, x := range map[string]struct {
		path, media string
		body        []byte
		code        int
		says        string
	}{
		"an honest summary":             {summariesPath, runtime.ContentTypeJSON, honest, http.StatusCreated, ""},
		"a summary without end":         {summariesPath, runtime.ContentTypeProtobuf, summary(bytes.Repeat([]byte{0x12, 0}, 1_400_000)), http.StatusRequestEntityTooLarge, "at most 262144 bytes"},
		"a dense summary":               {summariesPath, runtime.ContentTypeProtobuf, summary(bytes.Repeat([]byte{0x12, 0}, 128_000)), http.StatusRequestEntityTooLarge, "more elements"},
		"as dense as may be":            {summariesPath, runtime.ContentTypeProtobuf, summary(slices.Concat([]byte{0x0a, 3, 0x0a, 1, 'n'}, bytes.Repeat([]byte{0x12, 0}, 11_000), padding(230_000))), http.StatusCreated, ""},
		"a dense summary in JSON":       {summariesPath, runtime.ContentTypeJSON, list(`{"networkPolicies":LIST}`, `{}`, 250<<10), http.StatusRequestEntityTooLarge, "more elements"},
		"without a type":                {summariesPath, "", list(`{"networkPolicies":LIST}`, `{}`, 250<<10), http.StatusRequestEntityTooLarge, "more elements"},
		"labels":                        {summariesPath, runtime.ContentTypeJSON, list(`{"metadata":{"ownerReferences":LIST}}`, `{}`, 250<<10), http.StatusRequestEntityTooLarge, "more elements"},
		"YAML":                          {summariesPath, runtime.ContentTypeYAML, []byte("networkPolicies: [{}, {}]"), http.StatusUnsupportedMediaType, "application/json"},
		"a dense list of other objects": {summariesPath, runtime.ContentTypeJSON, list(`{"kind":"NetworkPolicyList","apiVersion":"controlplane.antrea.io/v1beta2","items":LIST}`, `{}`, 100<<10), http.StatusBadRequest, "want a NodeStatsSummary"},
		"other objects by another name": {summariesPath, runtime.ContentTypeJSON, list(`{"KIND":"NetworkPolicyList","items":LIST}`, `{}`, 100<<10), http.StatusBadRequest, "want a NodeStatsSummary"},
		"a long status":                 {statusPath, runtime.ContentTypeJSON, list(`{"nodes":LIST}`, `{"nodeName":"a","message":"`+strings.Repeat("m", 900)+`"}`, 70<<10), http.StatusRequestEntityTooLarge, "at most 65536 bytes"},
		"a dense plan":                  {plansPath, runtime.ContentTypeJSON, list(`{"spec":{"delete":LIST}}`, `{}`, 600<<10), http.StatusRequestEntityTooLarge, "more elements"},
		"a large plan":                  {plansPath, runtime.ContentTypeJSON, []byte(`{"spec":{"manifests":"` + strings.Repeat("# a manifest\\n", 46_000) + `"}}`), http.StatusCreated, ""},
		"a path that takes nothing":     {"/endpoint", "", bytes.Repeat([]byte("x"), 20<<10), http.StatusRequestEntityTooLarge, "at most 16384 bytes"},
	} {
		var code int
		var text string
		grown := peak(func() { code, text = w.send(t, c, "agent", x.path, x.media, bytes.NewReader(x.body)) })
		if code != x.code || !strings.Contains(text, x.says) {
			t.Errorf("%s: got %d %.300s, want %d %s", name, code, text, x.code, x.says)
		}
		t.Logf("%s: %d bytes, the heap grew by %d", name, len(x.body), grown)
		// What is taken is sent back, which takes as much again.
		if bound := int64(8*len(x.body) + 1<<20); grown > bound && (code != http.StatusCreated || x.path != plansPath) {
			t.Errorf("%s: the heap grew by %d bytes, more than %d", name, grown, bound)
		}
	}
}

// TestBodiesOfOneCaller: one caller who sends as slowly as he can takes his share, and nobody
// else's.
func TestBodiesOfOneCaller(t *testing.T) {
	access := tokenAccess()
	access.Authorizer = authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
		return authorizer.DecisionAllow, "", nil
	})
	w := &world{store: watchstore.New(watchstore.Options{}), reports: &reportBook{}, dir: t.TempDir(), reviews: &oracle{}, traffic: &trafficBook{}, access: &access}
	w.start(t, "127.0.0.1:0")
	w.store.Publish(watchstore.Changes{})
	w.fill()
	const share, most = 16, 20 // bodies of a megabyte
	slow, codes := stranger(t), make(chan int, most)
	var pipes []*io.PipeWriter
	for range most {
		r, p := io.Pipe()
		pipes = append(pipes, p)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+w.address+trafficPath, r)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer slow")
		go func() {
			response, err := slow.Do(request)
			if err != nil {
				codes <- 0
				return
			}
			codes <- response.StatusCode
			_ = response.Body.Close()
		}()
	}
	for range most - share { // those beyond his share are refused
		if code := <-codes; code != http.StatusTooManyRequests {
			t.Fatalf("got %d", code)
		}
	}
	code, text := w.send(t, stranger(t), "other", statusPath, runtime.ContentTypeJSON, strings.NewReader(`{"metadata":{"name":"u1"},"nodes":[{"nodeName":"a"}]}`))
	if code != http.StatusCreated {
		t.Errorf("another one: %d %s", code, text)
	}
	for _, p := range pipes {
		_ = p.CloseWithError(errors.New("enough"))
	}
}
