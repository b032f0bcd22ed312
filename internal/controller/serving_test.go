package controller

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestMetricsAreOpenOnThisMachineOnly: an address that others may reach is served over TLS to those
// who may read.
func TestMetricsAreOpenOnThisMachineOnly(t *testing.T) {
	for address, secure := range map[string]bool{
		"127.0.0.1:8080": false, "127.9.9.9:8080": false, "[::1]:8080": false, "localhost:8080": false, "[::ffff:127.0.0.1]:1": false,
		":8080": true, "0.0.0.0:8080": true, "[::]:8080": true, "10.0.0.1:8080": true, "metrics.example:8080": true, "localhost.example:1": true,
	} {
		o, err := metricsOptions(address, nil)
		if err != nil || o.SecureServing != secure || (o.FilterProvider != nil) != secure || o.BindAddress != address {
			t.Errorf("%s: secure %t, filter %t, %v", address, o.SecureServing, o.FilterProvider != nil, err)
		}
	}
	for _, none := range []string{"", "0"} {
		if o, err := metricsOptions(none, nil); err != nil || o.BindAddress != "0" {
			t.Errorf("%q: %+v, %v", none, o, err)
		}
	}
	if _, err := metricsOptions("8080", nil); err == nil || !strings.Contains(err.Error(), "--metrics 8080: want HOST:PORT") {
		t.Error(err)
	}
}

func TestAtMost(t *testing.T) {
	inside, let := make(chan struct{}, 2), make(chan struct{})
	h := atMost(2, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		inside <- struct{}{}
		<-let
	}))
	ask := func() int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
		return w.Code
	}
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			if code := ask(); code != http.StatusOK {
				t.Error(code)
			}
		})
		<-inside
	}
	if code := ask(); code != http.StatusTooManyRequests {
		t.Errorf("the third: %d", code)
	}
	close(let)
	all.Wait()
	if code := ask(); code != http.StatusOK {
		t.Errorf("afterwards: %d", code)
	}
}

func TestSecretsAreWatchedWhereTheyMayBe(t *testing.T) {
	if o := cacheOptions(Options{}); len(o.ByObject) != 0 {
		t.Errorf("without the flag: %v", o.ByObject)
	}
	o := cacheOptions(Options{SecretNamespaces: []string{"a", "b"}})
	for object, by := range o.ByObject {
		if _, isSecret := client.Object(object).(*corev1.Secret); !isSecret || len(by.Namespaces) != 2 {
			t.Errorf("%T: %v", object, by)
		}
	}
	if len(o.ByObject) != 1 {
		t.Errorf("%v", o.ByObject)
	}
}
