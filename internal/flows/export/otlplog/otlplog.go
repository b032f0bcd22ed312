// Package otlplog writes flows as log records of OpenTelemetry.
//
// It owns the attributes of a record: attributes of OpenTelemetry's conventions where there are
// some (source, destination, network), else our own, which begin with "nephele.".
//
// Everything is pure: no I/O, no clock, no goroutines.
package otlplog

import (
	"fmt"
	"strings"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/flows/live"
)

// EventName is that of all records.
const EventName = "nephele.flow"

// Request is what a collector is sent: a record of each entry, as for a caller who may see
// everything.
func Request(entries []*live.Entry, version, cluster string, at time.Time) *collector.ExportLogsServiceRequest {
	scope := &logs.ScopeLogs{Scope: &common.InstrumentationScope{Name: "nephele/flows", Version: version}}
	for _, e := range entries {
		scope.LogRecords = append(scope.LogRecords, record(e, at))
	}
	about := &resource.Resource{Attributes: []*common.KeyValue{
		text("service.name", "nephele"), text("service.version", version), text("k8s.cluster.uid", cluster),
	}}
	return &collector.ExportLogsServiceRequest{ResourceLogs: []*logs.ResourceLogs{{Resource: about, ScopeLogs: []*logs.ScopeLogs{scope}}}}
}

func record(e *live.Entry, at time.Time) *logs.LogRecord {
	x := live.Told(e)
	r := &logs.LogRecord{
		TimeUnixNano: uint64(x.Last.UnixNano()), ObservedTimeUnixNano: uint64(at.UnixNano()), EventName: EventName,
		SeverityNumber: logs.SeverityNumber_SEVERITY_NUMBER_INFO, SeverityText: "INFO",
	}
	switch {
	case x.Differs == "Leaks", x.Differs == "Cut":
		r.SeverityNumber, r.SeverityText = logs.SeverityNumber_SEVERITY_NUMBER_ERROR, "ERROR"
	case x.Verdict == "Drop", x.Verdict == "Reject":
		r.SeverityNumber, r.SeverityText = logs.SeverityNumber_SEVERITY_NUMBER_WARN, "WARN"
	}
	network, transport := "ipv4", strings.ToLower(x.Protocol)
	if e.Client.Is6() {
		network = "ipv6"
	}
	r.Body = &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: fmt.Sprintf("%s %s to %s %s/%d", x.Verdict, title(&x.From), title(&x.To), transport, x.Port)}}
	add := func(key, value string) {
		if value != "" {
			r.Attributes = append(r.Attributes, text(key, value))
		}
	}
	add("source.address", x.From.Address)
	add("destination.address", x.To.Address)
	r.Attributes = append(r.Attributes, number("destination.port", int64(x.Port)))
	add("network.transport", transport)
	add("network.type", network)
	for side, end := range map[string]*analysis.FlowEnd{"source": &x.From, "destination": &x.To, "service": x.Service} {
		if end != nil {
			add("nephele."+side+".kind", end.Kind)
			add("nephele."+side+".namespace", end.Namespace)
			add("nephele."+side+".name", end.Name)
		}
	}
	if x.Service != nil {
		add("nephele.service.address", x.Service.Address)
		r.Attributes = append(r.Attributes, number("nephele.service.port", int64(x.ServicePort)))
	}
	add("nephele.enforcer", x.Enforcer)
	add("nephele.direction", x.Direction)
	add("nephele.verdict", x.Verdict)
	add("nephele.differs", x.Differs)
	for name, c := range map[string]*analysis.TrafficCause{"by": &x.By, "before": x.Before} {
		if c != nil {
			add("nephele."+name+".cause", c.Cause)
			add("nephele."+name+".policy.type", c.Type)
			add("nephele."+name+".policy.namespace", c.Namespace)
			add("nephele."+name+".policy.name", c.Name)
			add("nephele."+name+".policy.uid", c.UID)
			add("nephele."+name+".rule", c.Rule)
			add("nephele."+name+".why", c.Why)
		}
	}
	for _, n := range []struct {
		name string
		n    int64
	}{
		{"connections", x.Connections}, {"ended", x.Ended}, {"packets", x.Packets}, {"bytes", x.Bytes}, {"reply.packets", x.ReplyPackets}, {"reply.bytes", x.ReplyBytes},
	} {
		r.Attributes = append(r.Attributes, number("nephele."+n.name, n.n))
	}
	return r
}

func title(e *analysis.FlowEnd) string {
	if e.Name == "" {
		return e.Address
	}
	return strings.TrimPrefix(e.Namespace+"/"+e.Name, "/")
}

func text(key, value string) *common.KeyValue {
	return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: strings.ToValidUTF8(value, "")}}}
}

func number(key string, n int64) *common.KeyValue {
	return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: n}}}
}
