package export

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nephele-io/nephele/internal/flows/live"
)

// The numbers of syslog (RFC 5424, section 6.2.1).
const (
	facilityLocal0 = 16
	severityError  = 3
	severityWarn   = 4
	severityInfo   = 6
	// longestHost is that of the name that a message is from.
	longestHost = 255
)

// Syslog sends a message of RFC 5424 for each entry, with its JSON: over UDP one in a datagram (RFC
// 5426), over TCP and TLS one behind the other, each with its length before it (RFC 6587, RFC
// 5425).
type Syslog struct {
	wire
	host string
}

// NewSyslog returns a Sink for a server: udp://HOST:PORT, tcp://HOST:PORT or tls://HOST:PORT.
// Cluster is the id of this cluster, from which messages are.
func NewSyslog(to, cluster string) (*Syslog, error) {
	w, err := newWire(to)
	if err != nil {
		return nil, err
	}
	return &Syslog{w, hostOf(cluster)}, nil
}

// hostOf is a name as a message may be from one: printable ASCII without spaces, or "-".
func hostOf(name string) string {
	name = strings.Map(func(r rune) rune {
		if r <= ' ' || r >= 127 {
			return -1
		}
		return r
	}, name)
	if name == "" {
		return "-"
	}
	return name[:min(len(name), longestHost)]
}

// Send implements Sink.
func (s *Syslog) Send(ctx context.Context, entries []*live.Entry, _ time.Time) (int, error) {
	if err := s.open(ctx); err != nil {
		return 0, err
	}
	var stream []byte
	for _, e := range entries {
		message, err := s.message(e)
		if err != nil {
			return 0, err
		}
		if s.network == "udp" {
			if _, err := s.conn.Write(message); err != nil {
				return 0, errors.Join(err, s.Close())
			}
			continue
		}
		stream = append(strconv.AppendInt(stream, int64(len(message)), 10), ' ')
		stream = append(stream, message...)
	}
	if len(stream) > 0 {
		if _, err := s.conn.Write(stream); err != nil {
			return 0, errors.Join(err, s.Close())
		}
	}
	return 0, nil
}

func (s *Syslog) message(e *live.Entry) ([]byte, error) {
	x := live.Told(e)
	severity := severityInfo
	switch {
	case x.Differs == "Leaks" || x.Differs == "Cut":
		severity = severityError
	case x.Verdict == "Drop" || x.Verdict == "Reject":
		severity = severityWarn
	}
	body, err := json.Marshal(x)
	if err != nil {
		return nil, err
	}
	return append(fmt.Appendf(nil, "<%d>1 %s %s nephele - flow - ", facilityLocal0*8+severity, x.Last.UTC().Format("2006-01-02T15:04:05.000000Z"), s.host), body...), nil
}
