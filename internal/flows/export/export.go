// Package export hands flows to other systems as they come: to collectors of IPFIX and of
// OpenTelemetry, to a server of syslog, and to a file.
//
// It owns connections, batches and repeats. It never waits for another system: entries that
// a system does not take in time are dropped at their source, and counted there. Each exporter
// belongs to one goroutine.
package export

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	collector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	"google.golang.org/protobuf/proto"
	"gopkg.in/natefinch/lumberjack.v2"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/internal/flows/export/ipfix"
	"github.com/nephele-io/nephele/internal/flows/export/otlplog"
	"github.com/nephele-io/nephele/internal/flows/live"
)

const (
	// collect is how long entries are gathered, and maxTogether how many are sent together.
	collect     = time.Second
	maxTogether = 1000
	// timeout bounds one attempt, and rest the pause after one that failed.
	timeout             = 10 * time.Second
	lastWords           = 2 * time.Second
	firstRest, maxRest  = time.Second, time.Minute
	templatesAgain      = time.Minute
	maxAnswer           = 64 << 10
	datagram, maxStream = 1400, 16 << 10
)

// Sink is a system that takes flows.
type Sink interface {
	// Send sends entries, and returns how many of them the other side has refused for good. With an
	// error all are sent again.
	Send(ctx context.Context, entries []*live.Entry, at time.Time) (refused int, err error)
	Close() error
}

// Exporter hands flows to a Sink.
type Exporter struct {
	Name  string
	Sink  Sink
	Clock clock.WithTicker
	Log   logr.Logger

	sent, refused atomic.Int64
	failing       atomic.Bool
}

// Counts are what became of flows.
func (e *Exporter) Counts() (sent, refused int64, failing bool) {
	return e.sent.Load(), e.refused.Load(), e.failing.Load()
}

// Run sends what comes until ctx ends.
func (e *Exporter) Run(ctx context.Context, in <-chan *live.Entry) {
	defer func() { _ = e.Sink.Close() }()
	tick := e.Clock.NewTicker(collect)
	defer tick.Stop()
	var batch []*live.Entry
	for {
		select {
		case <-ctx.Done():
			e.last(ctx, append(batch, left(in)...))
			return
		case x := <-in:
			if batch = append(batch, x); len(batch) < maxTogether {
				continue
			}
		case <-tick.C():
		}
		if len(batch) > 0 && !e.send(ctx, batch) {
			e.last(ctx, append(batch, left(in)...))
			return
		}
		batch = batch[:0]
	}
}

// left is what waits.
func left(in <-chan *live.Entry) (out []*live.Entry) {
	for {
		select {
		case x := <-in:
			out = append(out, x)
		default:
			return out
		}
	}
}

// last tries once to send what is left at the end of the process.
func (e *Exporter) last(ctx context.Context, entries []*live.Entry) {
	attempt, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	for len(entries) > 0 && attempt.Err() == nil {
		part := entries[:min(len(entries), maxTogether)]
		refused, err := e.Sink.Send(attempt, part, e.Clock.Now())
		if err != nil {
			e.Log.Error(err, "The last flows are not exported", "to", e.Name, "entries", len(entries))
			return
		}
		e.sent.Add(int64(len(part) - refused))
		e.refused.Add(int64(refused))
		entries = entries[len(part):]
	}
}

// send sends a batch until it is taken. It is false if ctx ends before.
func (e *Exporter) send(ctx context.Context, batch []*live.Entry) bool {
	for rest := firstRest; ; rest = min(2*rest, maxRest) {
		attempt, cancel := context.WithTimeout(ctx, timeout)
		refused, err := e.Sink.Send(attempt, batch, e.Clock.Now())
		cancel()
		if err == nil {
			e.sent.Add(int64(len(batch) - refused))
			if e.refused.Add(int64(refused)); refused > 0 {
				e.Log.Info("Flows were refused", "by", e.Name, "entries", refused)
			}
			if e.failing.Swap(false) {
				e.Log.Info("Flows are exported again", "to", e.Name)
			}
			return true
		}
		if ctx.Err() == nil && !e.failing.Swap(true) {
			e.Log.Error(err, "Flows cannot be exported, trying again", "to", e.Name)
		}
		select {
		case <-ctx.Done():
			return false
		case <-e.Clock.After(rest):
		}
	}
}

// IPFIX sends to a collector: udp://HOST:PORT, tcp://HOST:PORT or tls://HOST:PORT.
type IPFIX struct {
	wire
	encoder   *ipfix.Encoder
	templates time.Time
}

// NewIPFIX returns a Sink for a collector. Cluster is the id of this cluster.
func NewIPFIX(to, cluster string) (*IPFIX, error) {
	w, err := newWire(to)
	if err != nil {
		return nil, err
	}
	most := maxStream
	if w.network == "udp" {
		most = datagram
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(cluster))
	return &IPFIX{wire: w, encoder: ipfix.NewEncoder(h.Sum32(), cluster, most)}, nil
}

// Send implements Sink.
func (s *IPFIX) Send(ctx context.Context, entries []*live.Entry, at time.Time) (int, error) {
	fresh := s.conn == nil
	if err := s.open(ctx); err != nil {
		return 0, err
	}
	if fresh {
		s.templates = time.Time{}
	}
	var messages [][]byte
	if s.templates.IsZero() || s.network == "udp" && at.Sub(s.templates) >= templatesAgain {
		messages, s.templates = append(messages, s.encoder.Templates(at)...), at
	}
	messages = append(messages, s.encoder.Records(entries, at)...)
	for _, m := range messages {
		if _, err := s.conn.Write(m); err != nil {
			return 0, errors.Join(err, s.Close())
		}
	}
	return 0, nil
}

// OTLP sends log records to a collector over HTTP.
type OTLP struct {
	url, version, cluster string
	headers               http.Header
	client                *http.Client
}

// NewOTLP returns a Sink for a collector, http:// or https://HOST[:PORT][/PATH]; the path is
// /v1/logs if there is none. Headers are what OTEL_EXPORTER_OTLP_LOGS_HEADERS says: name=value,
// ....
func NewOTLP(to, headers, version, cluster string) (*OTLP, error) {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
		return nil, fmt.Errorf("%q: want http:// or https://HOST[:PORT][/PATH]", to)
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/v1/logs"
	}
	out := &OTLP{url: u.String(), version: version, cluster: cluster, headers: http.Header{}, client: &http.Client{
		Transport:     http.DefaultTransport.(*http.Transport).Clone(),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // headers may be secret
	}}
	for pair := range strings.SplitSeq(headers, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if name == "" && !ok {
			continue
		}
		plain, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || err != nil || strings.TrimSpace(name) == "" {
			return nil, errors.New("headers of OpenTelemetry: want name=value,name=value")
		}
		out.headers.Set(strings.TrimSpace(name), plain)
	}
	return out, nil
}

// Send implements Sink.
func (s *OTLP) Send(ctx context.Context, entries []*live.Entry, at time.Time) (int, error) {
	raw, err := proto.Marshal(otlplog.Request(entries, s.version, s.cluster, at))
	if err != nil {
		return 0, err
	}
	var body bytes.Buffer
	z := gzip.NewWriter(&body)
	if _, err := z.Write(raw); err != nil {
		return 0, err
	}
	if err := z.Close(); err != nil {
		return 0, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, &body)
	if err != nil {
		return 0, err
	}
	r.Header = s.headers.Clone()
	r.Header.Set("Content-Type", "application/x-protobuf")
	r.Header.Set("Content-Encoding", "gzip")
	answer, err := s.client.Do(r)
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return 0, err
	}
	switch code := answer.StatusCode; {
	case code == http.StatusOK || code == http.StatusNoContent || code == http.StatusAccepted:
		var stated collector.ExportLogsServiceResponse
		if answer.Header.Get("Content-Type") != "application/x-protobuf" || proto.Unmarshal(text, &stated) != nil {
			return 0, nil
		}
		return int(min(max(stated.GetPartialSuccess().GetRejectedLogRecords(), 0), int64(len(entries)))), nil
	case code == http.StatusTooManyRequests || code == http.StatusRequestTimeout || code >= 500:
		return 0, fmt.Errorf("the collector answers %s", answer.Status)
	case code == http.StatusBadRequest || code == http.StatusRequestEntityTooLarge || code == http.StatusUnprocessableEntity:
		return len(entries), nil // the same again would be refused again
	default: // what is wrong with rights or addresses somebody may put right
		return 0, fmt.Errorf("the collector answers %s", answer.Status)
	}
}

// Close implements Sink.
func (s *OTLP) Close() error {
	s.client.CloseIdleConnections()
	return nil
}

// File writes lines of JSON.
type File struct{ out *lumberjack.Logger }

// NewFile returns a Sink that is a file, which is rotated.
func NewFile(path string) *File {
	return &File{&lumberjack.Logger{Filename: path, MaxSize: 100 /* MB */, MaxBackups: 3}}
}

// Send implements Sink.
func (s *File) Send(_ context.Context, entries []*live.Entry, _ time.Time) (int, error) {
	var lines bytes.Buffer
	e := json.NewEncoder(&lines)
	for _, x := range entries {
		if err := e.Encode(live.Told(x)); err != nil {
			return 0, err
		}
	}
	_, err := s.out.Write(lines.Bytes())
	return 0, err
}

// Close implements Sink.
func (s *File) Close() error { return s.out.Close() }
