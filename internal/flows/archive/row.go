package archive

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/nephele-io/nephele/internal/flows/live"
)

// row is an entry as it is in a file: with its addresses in words, and its times in milliseconds.
type row struct {
	// Minute is since 1970, First and Last are since Minute.
	Minute, First, Last     int64
	Enforcer, Direction     string
	Client, Server, Service end
	Protocol, Port          int32
	Verdict, Differs        string
	Cause, Before           live.Cause

	Connections, Ended, Packets, Bytes, ReplyPackets, ReplyBytes int64
	Uncounted                                                    bool
}

// end is an address, and its owner.
type end struct {
	Address string
	Owner   live.Owner
}

// field is a column of a file: its name and encoding, as a tag of the parquet library, and where it
// is in a row, which is a *string, *int32, *int64 or *bool.
type field struct {
	tag string
	at  func(*row) any
}

// fields are all columns in their order. The names are for other programs that read the files: they
// and the types stay as they are, and a new column goes to the end.
var fields = slices.Concat(
	[]field{
		{"minute,timestamp(millisecond),delta", func(r *row) any { return &r.Minute }},
		{"first_ms,delta", func(r *row) any { return &r.First }},
		{"last_ms,delta", func(r *row) any { return &r.Last }},
		{"enforcer,dict", func(r *row) any { return &r.Enforcer }},
		{"direction,dict", func(r *row) any { return &r.Direction }},
	},
	endFields("client", func(r *row) *end { return &r.Client }),
	endFields("server", func(r *row) *end { return &r.Server }),
	endFields("service", func(r *row) *end { return &r.Service })[:4], // a Service has no enforcer
	[]field{
		{"protocol,dict", func(r *row) any { return &r.Protocol }},
		{"port,dict", func(r *row) any { return &r.Port }},
		{"verdict,dict", func(r *row) any { return &r.Verdict }},
		{"differs,dict", func(r *row) any { return &r.Differs }},
	},
	causeFields("", func(r *row) *live.Cause { return &r.Cause }),
	causeFields("before_", func(r *row) *live.Cause { return &r.Before }),
	[]field{
		{"connections,delta", func(r *row) any { return &r.Connections }},
		{"ended,delta", func(r *row) any { return &r.Ended }},
		{"packets,delta", func(r *row) any { return &r.Packets }},
		{"bytes,delta", func(r *row) any { return &r.Bytes }},
		{"reply_packets,delta", func(r *row) any { return &r.ReplyPackets }},
		{"reply_bytes,delta", func(r *row) any { return &r.ReplyBytes }},
		{"uncounted", func(r *row) any { return &r.Uncounted }},
	},
)

// endFields are the columns of an end of connections.
func endFields(name string, of func(*row) *end) []field {
	return []field{
		{name + ",dict", func(r *row) any { return &of(r).Address }},
		{name + "_kind,dict", func(r *row) any { return &of(r).Owner.Kind }},
		{name + "_namespace,dict", func(r *row) any { return &of(r).Owner.Namespace }},
		{name + "_name,dict", func(r *row) any { return &of(r).Owner.Name }},
		{name + "_enforcer,dict", func(r *row) any { return &of(r).Owner.Enforcer }},
	}
}

// causeFields are the columns of what decided about connections.
func causeFields(prefix string, of func(*row) *live.Cause) []field {
	return []field{
		{prefix + "cause,dict", func(r *row) any { return &of(r).Cause }},
		{prefix + "policy_type,dict", func(r *row) any { return &of(r).Type }},
		{prefix + "policy_namespace,dict", func(r *row) any { return &of(r).Namespace }},
		{prefix + "policy_name,dict", func(r *row) any { return &of(r).Name }},
		{prefix + "policy_uid,dict", func(r *row) any { return &of(r).UID }},
		{prefix + "rule,dict", func(r *row) any { return &of(r).Rule }},
		{prefix + "rule_index,dict", func(r *row) any { return &of(r).Index }},
		{prefix + "rule_direction,dict", func(r *row) any { return &of(r).Direction }},
		{prefix + "why,dict", func(r *row) any { return &of(r).Why }},
	}
}

// schema is what files say about their columns.
var schema = func() *parquet.Schema {
	var columns []reflect.StructField
	for i, f := range fields {
		columns = append(columns, reflect.StructField{
			Name: fmt.Sprintf("Column%d", i), Type: reflect.TypeOf(f.at(&row{})).Elem(), Tag: reflect.StructTag(`parquet:"` + f.tag + `"`),
		})
	}
	return parquet.NewSchema("row", parquet.SchemaOf(reflect.New(reflect.StructOf(columns)).Interface()))
}()

// values appends the row to out, column by column.
func (r *row) values(out parquet.Row) parquet.Row {
	for i := range fields {
		var v parquet.Value
		switch p := fields[i].at(r).(type) {
		case *string:
			v = parquet.ByteArrayValue([]byte(*p))
		case *int32:
			v = parquet.Int32Value(*p)
		case *int64:
			v = parquet.Int64Value(*p)
		case *bool:
			v = parquet.BooleanValue(*p)
		}
		out = append(out, v.Level(0, 0, i))
	}
	return out
}

// take sets the row to what values has by the columns of schema.
func (r *row) take(values parquet.Row) {
	*r = row{}
	for _, v := range values {
		switch p := fields[v.Column()].at(r).(type) {
		case *string:
			*p = string(v.ByteArray())
		case *int32:
			*p = v.Int32()
		case *int64:
			*p = v.Int64()
		case *bool:
			*p = v.Boolean()
		}
	}
}

func rowOf(e *live.Entry) row {
	r := row{
		Minute: e.Start.UnixMilli(), First: e.First.UnixMilli() - e.Start.UnixMilli(), Last: e.Last.UnixMilli() - e.Start.UnixMilli(),
		Enforcer: e.Enforcer, Direction: e.Direction,
		Client: end{e.Client.String(), e.ClientOwner}, Server: end{e.Server.String(), e.ServerOwner}, Service: end{Owner: e.AskedOwner},
		Protocol: int32(e.Protocol), Port: int32(e.Port), Verdict: e.Verdict, Differs: e.Differs, Cause: e.Cause, Before: e.Before,
		Connections: e.Connections, Ended: e.Ended, Packets: e.Packets, Bytes: e.Bytes, ReplyPackets: e.ReplyPackets, ReplyBytes: e.ReplyBytes,
		Uncounted: e.Uncounted,
	}
	if e.Asked.IsValid() {
		r.Service.Address = e.Asked.String()
	}
	return r
}

// entry is the row as an entry; false if it is none.
func (r *row) entry() (*live.Entry, bool) {
	client, clientErr := netip.ParseAddr(r.Client.Address)
	server, serverErr := netip.ParseAddr(r.Server.Address)
	if clientErr != nil || serverErr != nil || r.Protocol>>8 != 0 || r.Port>>16 != 0 {
		return nil, false
	}
	start := time.UnixMilli(r.Minute).UTC()
	e := &live.Entry{
		Start: start, First: start.Add(time.Duration(r.First) * time.Millisecond), Last: start.Add(time.Duration(r.Last) * time.Millisecond),
		Enforcer: r.Enforcer, Direction: r.Direction, Client: client, Server: server, Protocol: uint8(r.Protocol), Port: uint16(r.Port),
		Verdict: r.Verdict, Differs: r.Differs, ClientOwner: r.Client.Owner, ServerOwner: r.Server.Owner, AskedOwner: r.Service.Owner,
		Cause: r.Cause, Before: r.Before,
		Connections: r.Connections, Ended: r.Ended, Packets: r.Packets, Bytes: r.Bytes, ReplyPackets: r.ReplyPackets, ReplyBytes: r.ReplyBytes,
		Uncounted: r.Uncounted,
	}
	if r.Service.Address != "" {
		var err error
		if e.Asked, err = netip.ParseAddrPort(r.Service.Address); err != nil {
			return nil, false
		}
	}
	return e, true
}
