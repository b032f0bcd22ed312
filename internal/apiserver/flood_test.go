package apiserver_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/apiserver"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/apiserver/webhook"
)

// newHookServer starts a server that takes nobody for anything, with the webhooks of an empty
// cluster.
func newHookServer(t *testing.T) *world {
	t.Helper()
	scheme := apiruntime.NewScheme()
	if err := v1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	empty := webhook.Reading{Reader: fake.NewClientBuilder().WithScheme(scheme).Build()}
	access, err := apiserver.Closed()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{store: watchstore.New(watchstore.Options{}), reports: &reportBook{}, dir: t.TempDir(), access: &access, webhooks: webhook.Handlers(empty, empty)}
	w.start(t, "127.0.0.1:0")
	w.store.Publish(watchstore.Changes{})
	return w
}

// review is a question about a NetworkPolicy of the given rules, as it is now and as it was.
func review(rules string) []byte {
	object := `{"apiVersion":"crd.antrea.io/v1beta1","kind":"NetworkPolicy","metadata":{"name":"p","namespace":"n"},"spec":` +
		`{"priority":1,"appliedTo":[{"podSelector":{}}],"ingress":` + rules + `}}`
	return []byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"1","operation":"UPDATE","namespace":"n",` +
		`"object":` + object + `,"oldObject":` + strings.Replace(object, `"priority":1`, `"priority":2`, 1) + `}}`)
}

// repeated is a JSON list of so many equal elements that it has about size bytes.
func repeated(element string, size int) string {
	n := size / (len(element) + 1)
	return "[" + strings.Repeat(element+",", n) + element + "]"
}

// post sends a body to a path as a stranger, and returns the status; 0 if the connection was broken
// off.
func (w *world) post(ctx context.Context, c *http.Client, path string, body io.Reader) (int, string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+w.address+path, body)
	if err != nil {
		return 0, err.Error()
	}
	response, err := c.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(text)
}

// stranger is a client with connections of its own.
func stranger(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 2 * time.Minute}
}

// peak calls f and returns by how many bytes the heap has grown meanwhile at most, garbage
// included. It collects garbage early, so that the result is what f needs rather than the pace of
// the collector, which a busy machine changes.
func peak(f func()) int64 {
	defer debug.SetGCPercent(debug.SetGCPercent(25))
	runtime.GC()
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	read := func() int64 {
		metrics.Read(sample)
		return int64(sample[0].Value.Uint64())
	}
	base, highest := read(), int64(0)
	stop := make(chan struct{})
	var sampling sync.WaitGroup
	sampling.Go(func() {
		for tick := time.NewTicker(time.Millisecond); ; {
			select {
			case <-tick.C:
				highest = max(highest, read()-base)
			case <-stop:
				tick.Stop()
				return
			}
		}
	})
	f()
	close(stop)
	sampling.Wait()
	return highest
}

// TestStrangersCannotUseUpMemory: many at once ask the webhooks with as much as they can, in every
// form that is expensive. What it takes to serve them is bounded, and later callers are answered.
func TestStrangersCannotUseUpMemory(t *testing.T) {
	const bound = 256 << 20
	w := newHookServer(t)
	for name, x := range map[string]struct {
		strangers int
		body      []byte
	}{
		"four megabytes of empty rules":  {40, review(repeated(`{}`, 2<<20))},
		"two megabytes of empty rules":   {40, review(repeated(`{}`, 1<<20))},
		"half a megabyte of empty rules": {20, review(repeated(`{}`, 1<<18))},
		// These are as large as objects can be.
		"blocks":        {12, review(`[{"from":` + repeated(`{"ipBlock":{"cidr":"10.0.0.0/32"}}`, 3<<19) + `}]`)},
		"many warnings": {12, review(repeated(`{"enableLogging":true,"logLabel":"0123456789abcdef","appliedTo":[{"nodeSelector":{}}]}`, 3<<19))},
		"a long word":   {12, review(`[{"name":"` + strings.Repeat("n", 3<<19) + `"}]`)},
		"deep":          {40, review(strings.Repeat(`[`, 9000) + strings.Repeat(`]`, 9000))},
	} {
		t.Run(name, func(t *testing.T) {
			codes := map[int]int{}
			begin := time.Now()
			grown := peak(func() {
				var mu sync.Mutex
				var all sync.WaitGroup
				for i := range x.strangers {
					c := stranger(t)
					path := []string{"/mutate/annp", "/validate/annp"}[i%2]
					all.Go(func() {
						code, _ := w.post(t.Context(), c, path, bytes.NewReader(x.body))
						mu.Lock()
						defer mu.Unlock()
						codes[code]++
					})
				}
				all.Wait()
			})
			t.Logf("%d times %.1f MB: %v in %.1f s, the heap grew by %d MB", x.strangers, float64(len(x.body))/1e6, codes, time.Since(begin).Seconds(), grown>>20)
			if grown > bound {
				t.Errorf("the heap has grown by %d MB, want at most %d", grown>>20, bound>>20)
			}
			if code, text := w.post(t.Context(), stranger(t), "/validate/annp", bytes.NewReader(review(`[{"action":"Drop"}]`))); code != http.StatusOK {
				t.Errorf("afterwards: %d %s", code, text)
			}
		})
	}
}
