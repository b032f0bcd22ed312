package webhook_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/nephele-io/nephele/internal/apiserver/webhook"
	"github.com/nephele-io/nephele/internal/policy"
)

// waiting is a State that answers about tiers when it is let to, however long that takes.
type waiting struct {
	webhook.State
	asked chan struct{}
	let   chan struct{}
	at    atomic.Int32
	most  atomic.Int32
}

func newWaiting(s webhook.State) *waiting {
	return &waiting{State: s, asked: make(chan struct{}, 100), let: make(chan struct{})}
}

func (s *waiting) Tiers(ctx context.Context) ([]policy.Tier, error) {
	now := s.at.Add(1)
	defer s.at.Add(-1)
	for most := s.most.Load(); now > most && !s.most.CompareAndSwap(most, now); most = s.most.Load() {
	}
	s.asked <- struct{}{}
	<-s.let
	return s.State.Tiers(ctx)
}

// heavy is a question that takes more than half of what all may, and asks for a tier.
func heavy() []byte {
	return light(`[{"action":"Drop","ports":[` + strings.Repeat(`{"port":1},`, 110000) + `{"port":1}]}]`)
}

func light(rules string) []byte {
	return []byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"1","operation":"CREATE","namespace":"ns",` +
		`"object":{"apiVersion":"crd.antrea.io/v1beta1","kind":"NetworkPolicy","metadata":{"name":"p","namespace":"ns"},"spec":` +
		`{"tier":"gold","priority":1,"appliedTo":[{"podSelector":{}}],"ingress":` + rules + `}}}}`)
}

// TestBusy: one large question too many is sent away at once, small ones are not, and
// kube-apiserver's client asks again by itself.
func TestBusy(t *testing.T) {
	state := newWaiting(view(t, false, tier("gold", 5)))
	handlers := webhook.Handlers(state, view(t, true, tier("gold", 5)))
	server := httptest.NewServer(handlers["/validate/annp"])
	defer server.Close()
	first := make(chan int, 1)
	go func() {
		code, _ := postRaw(t, handlers["/validate/annp"], http.MethodPost, heavy())
		first <- code
	}()
	<-state.asked
	recorder := httptest.NewRecorder()
	handlers["/mutate/annp"].ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(heavy())))
	if recorder.Code != http.StatusTooManyRequests || recorder.Header().Get("Retry-After") != "1" || !strings.Contains(recorder.Body.String(), "ask again later") {
		t.Errorf("a second large question: %d %v %s", recorder.Code, recorder.Header(), recorder.Body)
	}
	client, err := rest.UnversionedRESTClientFor(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{NegotiatedSerializer: codecs()}})
	if err != nil {
		t.Fatal(err)
	}
	second := make(chan error, 1)
	go func() { second <- client.Post().Body(heavy()).Do(t.Context()).Error() }()
	small := make(chan int, 1)
	go func() {
		code, _ := postRaw(t, handlers["/validate/annp"], http.MethodPost, light(`[]`))
		small <- code
	}()
	<-state.asked // the small one, as the large one is sent away before
	close(state.let)
	if a, b := <-first, <-small; a != http.StatusOK || b != http.StatusOK {
		t.Errorf("the first is answered with %d, the small one with %d", a, b)
	}
	if err := <-second; err != nil {
		t.Errorf("asking again: %v", err)
	}
}

// TestLittleIsAlwaysAnswered: however many large questions there are, there is room for small ones.
func TestLittleIsAlwaysAnswered(t *testing.T) {
	state := newWaiting(view(t, false, tier("gold", 5)))
	handlers := webhook.Handlers(state, view(t, true, tier("gold", 5)))
	blocks := func(n int) []byte {
		return light(`[{"action":"Drop","from":[` + strings.Repeat(`{"ipBlock":{"cidr":"10.0.0.0/32"}},`, n) + `{}]}]`)
	}
	post := func(body []byte) chan int {
		out := make(chan int, 1)
		go func() {
			code, _ := postRaw(t, handlers["/validate/annp"], http.MethodPost, body)
			out <- code
		}()
		return out
	}
	var held []chan int
	for refused := 0; refused < 3; { // until nothing large gets in any more
		answer := post(blocks(20000))
		select {
		case <-state.asked:
			held = append(held, answer)
		case code := <-answer:
			if refused++; code != http.StatusTooManyRequests {
				t.Errorf("a large question is answered with %d", code)
			}
		}
	}
	if len(held) < 2 {
		t.Errorf("%d large questions at a time", len(held))
	}
	for range 20 {
		answer := post(light(`[]`))
		select {
		case <-state.asked:
			held = append(held, answer)
		case code := <-answer:
			t.Errorf("a small question is answered with %d", code)
		}
	}
	close(state.let)
	for _, answer := range held {
		if code := <-answer; code != http.StatusOK {
			t.Errorf("a request that was let in is answered with %d", code)
		}
	}
	if code := <-post(heavy()); code != http.StatusOK {
		t.Errorf("not everything was given back: %d", code)
	}
}

// TestSlowQuestions: a client that does not send what it has announced is cut off, over either
// version of HTTP, and does not keep the place.
func TestSlowQuestions(t *testing.T) {
	handlers := webhook.Handlers(view(t, false, tier("gold", 5)), view(t, true, tier("gold", 5)))
	for name, second := range map[string]bool{"HTTP/1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewUnstartedServer(handlers["/validate/annp"])
			server.EnableHTTP2 = second
			server.StartTLS()
			defer server.Close()
			var all sync.WaitGroup
			for range 3 {
				all.Go(func() {
					body, feed := io.Pipe()
					go func() { _, _ = feed.Write([]byte("{")) }()
					defer feed.Close()
					request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, body)
					if err != nil {
						t.Error(err)
						return
					}
					request.ContentLength = 3 << 20
					begin := time.Now()
					response, err := server.Client().Do(request)
					if err == nil {
						defer response.Body.Close()
						if response.StatusCode != http.StatusRequestTimeout || response.ProtoMajor == 2 != second {
							t.Errorf("%s %s", response.Proto, response.Status)
						}
					}
					if took := time.Since(begin); took > 10*time.Second {
						t.Errorf("cut off after %s (%v)", took, err)
					}
				})
			}
			all.Wait()
			for range 3 { // the connection lives on, whatever its deadline was
				response, err := server.Client().Post(server.URL, "application/json", bytes.NewReader(light(`[]`)))
				if err != nil {
					t.Fatal(err)
				}
				if response.Body.Close(); response.StatusCode != http.StatusOK {
					t.Errorf("afterwards: %s", response.Status)
				}
			}
		})
	}
}

// TestNobodyMakesUsAskMuch: strangers' questions about a tier that is not there reach
// kube-apiserver a few at a time only.
func TestNobodyMakesUsAskMuch(t *testing.T) {
	live := newWaiting(view(t, true))
	handlers := webhook.Handlers(view(t, false), live)
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() { postRaw(t, handlers["/validate/annp"], http.MethodPost, light(`[]`)) })
	}
	for range 40 {
		<-live.asked
		live.let <- struct{}{}
	}
	all.Wait()
	if most := live.most.Load(); most > 4 {
		t.Errorf("kube-apiserver was asked %d times at once", most)
	}
}

// TestAnswersAreShort: what is told of an object that is wrong everywhere does not grow with it.
func TestAnswersAreShort(t *testing.T) {
	handlers := webhook.Handlers(view(t, false, tier("gold", 5)), view(t, true, tier("gold", 5)))
	for name, rules := range map[string]string{
		"many faults":   "[" + strings.Repeat("{},", 20000) + "{}]",
		"a long value":  `[{"action":"` + strings.Repeat("ü", 1<<19) + `"}]`,
		"many warnings": "[" + strings.Repeat(`{"action":"Drop","enableLogging":true,"logLabel":"0123456789abcdef","appliedTo":[{"nodeSelector":{}}]},`, 500) + "{}]",
	} {
		for _, path := range []string{"/mutate/annp", "/validate/annp"} {
			code, answer := postRaw(t, handlers[path], http.MethodPost, light(rules))
			if code != http.StatusOK || len(answer) > 100<<10 || bytes.Contains(answer, []byte(`"allowed":true`)) {
				t.Errorf("%s, %s: %d with %d bytes: %.300s", name, path, code, len(answer), answer)
			}
		}
	}
}

func codecs() runtime.NegotiatedSerializer {
	return serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
}
