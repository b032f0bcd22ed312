package collector

import (
	"net"
	"strings"
	"testing"

	"github.com/go-logr/logr"

	"github.com/nephele-io/nephele/internal/platform/tracing"
)

// TestEnvironment: off without the variables; what cannot be done is refused.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for _, c := range []struct {
		env  map[string]string
		on   bool
		fail string
	}{
		{},
		{env: map[string]string{endpoint: "http://x:4317"}, on: true},
		{env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x:4317"}, on: true},
		{env: map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, on: true},
		{env: map[string]string{endpoint: "http://x:4317", "OTEL_TRACES_EXPORTER": "none"}},
		{env: map[string]string{endpoint: "http://x:4317", "OTEL_SDK_DISABLED": "true"}},
		{env: map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, fail: "must be otlp or none"},
		{env: map[string]string{endpoint: "http://x:4318", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, fail: "grpc only"},
	} {
		on, err := wanted(func(name string) string { return c.env[name] })
		if on != c.on || (err == nil) != (c.fail == "") || err != nil && !strings.Contains(err.Error(), c.fail) {
			t.Errorf("%v: %v, %v", c.env, on, err)
		}
	}
	if tracer, err := FromEnvironment(t.Context(), func(string) string { return "" }, "v1", logr.Discard()); tracer != nil || err != nil {
		t.Errorf("%v, %v", tracer, err)
	}
}

// TestCollectorIsAway: spans that no collector takes are dropped. Neither the code that begins them
// nor the end of the process waits for a collector that is not there, or that takes a connection
// and says nothing.
func TestCollectorIsAway(t *testing.T) {
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	closed, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{silent.Addr().String(), closed.Addr().String()} {
		env := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + address}
		for name, value := range env {
			t.Setenv(name, value)
		}
		tracer, err := FromEnvironment(t.Context(), func(name string) string { return env[name] }, "v1", logr.Discard())
		if err != nil {
			t.Fatal(err)
		}
		for range 10000 {
			tracer.Changed(t.Context(), "policy changed", tracing.Change{UID: "u", Generation: 1}).End("")
		}
		if err := tracer.Close(t.Context()); err != nil && !strings.Contains(err.Error(), "deliver the last traces") {
			t.Error(err)
		}
	}
}
