package controller

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"

	"github.com/go-logr/logr"
	"golang.org/x/sync/semaphore"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/nephele-io/nephele/internal/apiserver/serving"
	"github.com/nephele-io/nephele/internal/control/trim"
)

// scrapes is how many requests for metrics are answered at a time.
const scrapes = 8

// cacheOptions limits what is watched.
func cacheOptions(o Options) cache.Options {
	out := cache.Options{DefaultTransform: trim.NewTrimmer().Trim}
	if len(o.SecretNamespaces) > 0 {
		namespaces := map[string]cache.Config{}
		for _, ns := range o.SecretNamespaces {
			namespaces[ns] = cache.Config{}
		}
		out.ByObject = map[client.Object]cache.ByObject{&corev1.Secret{}: {Namespaces: namespaces}}
	}
	return out
}

// certificate returns where to ask for the certificate of the computed API once it is served to
// others; nil if it never is.
func (proc *process) certificate() func() *serving.Certificate {
	if proc.API == nil {
		return nil
	}
	return proc.loopback.certificate.Load
}

// metricsOptions says how metrics are served: to everybody on this machine over HTTP if nobody else
// reaches the address, else over TLS to callers that the cluster allows to read them. Function cert
// returns the certificate of the computed API; without one, the process makes one that no client
// can verify.
func metricsOptions(address string, cert func() *serving.Certificate) (metricsserver.Options, error) {
	out := metricsserver.Options{BindAddress: address}
	if address == "" || address == "0" {
		out.BindAddress = "0"
		return out, nil
	}
	local, err := onLoopback(address)
	if err != nil || local {
		return out, err
	}
	out.SecureServing, out.FilterProvider = true, scrapersOnly
	out.TLSOpts = []func(*tls.Config){func(c *tls.Config) {
		// A scrape is one request; the many parallel requests of HTTP/2 would only serve an
		// attacker.
		c.NextProtos, c.MinVersion = []string{"http/1.1"}, tls.VersionTLS12
		if cert != nil {
			c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
				if current := cert(); current != nil {
					return current.Current()
				}
				return nil, errors.New("the certificate has not been made yet")
			}
		}
	}}
	return out, nil
}

// onLoopback reports whether an address is reached from this machine only.
func onLoopback(address string) (bool, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, fmt.Errorf("--metrics %s: want HOST:PORT, or 0 for none", address)
	}
	if host == "localhost" {
		return true, nil
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback(), nil
}

// scrapersOnly is a FilterProvider: the cluster authenticates the caller, and says whether it may
// get the path.
func scrapersOnly(cfg *rest.Config, c *http.Client) (metricsserver.Filter, error) {
	known, err := filters.WithAuthenticationAndAuthorization(cfg, c)
	if err != nil {
		return nil, fmt.Errorf("protect the metrics: %w", err)
	}
	return func(log logr.Logger, next http.Handler) (http.Handler, error) {
		protected, err := known(log, next)
		if err != nil {
			return nil, err
		}
		return atMost(scrapes, protected), nil
	}, nil
}

// atMost lets n requests pass at a time, and sends the others away.
func atMost(n int64, next http.Handler) http.Handler {
	held := semaphore.NewWeighted(n)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !held.TryAcquire(1) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, fmt.Sprintf("%d requests are being answered, which is as many as may be; try again later", n), http.StatusTooManyRequests)
			return
		}
		defer held.Release(1)
		next.ServeHTTP(w, r)
	})
}
