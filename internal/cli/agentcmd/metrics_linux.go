package agentcmd

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// scrapes is how many requests for metrics are answered at a time, scrapeLimit how long one may
	// take.
	scrapes     = 4
	scrapeLimit = 10 * time.Second
)

// serveMetrics serves metrics until ctx ends. Policies are enforced also where that fails.
func serveMetrics(ctx context.Context, address string, log logr.Logger, own ...prometheus.Collector) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err == nil {
		err = metricsOn(ctx, l, own...)
	}
	if err != nil {
		log.Error(err, "The metrics of the agent are not served", "address", address)
		<-ctx.Done()
	}
}

// metricsOn serves metrics on a listener until ctx ends.
func metricsOn(ctx context.Context, l net.Listener, own ...prometheus.Collector) error {
	registry := prometheus.NewRegistry()
	for _, c := range append([]prometheus.Collector{collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})}, own...) {
		if err := registry.Register(c); err != nil {
			return errors.Join(err, l.Close())
		}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: scrapes, Timeout: scrapeLimit}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: scrapeLimit, ReadTimeout: scrapeLimit, WriteTimeout: 2 * scrapeLimit, MaxHeaderBytes: 16 << 10}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
