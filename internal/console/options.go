package console

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
)

// Mode is whose console it is.
type Mode string

const (
	// Local is the console of the one person who has started it.
	Local Mode = "local"
	// Cluster is a console for every person who may log in.
	Cluster Mode = "cluster"
)

// Options say what a Server is to do. Cluster, Origins, Now and Random must be set.
type Options struct {
	Mode Mode
	// Cluster is how the API server is reached. In the mode Local its credentials belong to the
	// person; in the mode Cluster credentials in it are not used.
	Cluster *rest.Config
	// Origins are where browsers find this server, as in http://127.0.0.1:8080. What comes under
	// another host name or from the page of another origin is refused. The first one is for links.
	Origins []string
	// Edit lets changes pass, as far as the person may make them.
	Edit bool
	// Tokens lets people log in with a token that they paste (mode Cluster).
	Tokens bool
	// OpenID lets people log in with a provider (mode Cluster); nil for none.
	OpenID *OpenID
	// TLS has the certificate with which Serve answers (mode Cluster); nil for none.
	TLS *tls.Config
	// Name says on the page which cluster it is, Version which Nephele, and Demo that it is one.
	Name, Version string
	Demo          bool
	// Limits that are 0 come from DefaultLimits.
	Limits Limits
	// Page has index.html and assets; nil for the one that is built in.
	Page fs.FS

	Log    logr.Logger
	Now    func() time.Time
	Random io.Reader
}

// Limits bound what browsers can make a Server do.
type Limits struct {
	// Sessions bounds all sessions, SessionsPerUser the sessions of one person; a new one beyond
	// that ends the one that was used least recently. A session ends after SessionAge, and after
	// SessionIdle unused.
	Sessions, SessionsPerUser int
	SessionAge, SessionIdle   time.Duration
	// LinkAge is how long a link is good that was not used.
	LinkAge time.Duration
	// Logins are under way at a time, all together; RequestsPerSession and StreamsPerSession those
	// of one session.
	Logins, RequestsPerSession, StreamsPerSession int
	// Connections are held at a time.
	Connections int
	// BodyBytes are read of a request, AnswerBytes passed on of an answer.
	BodyBytes, AnswerBytes int64
	// RequestTime bounds a request that is passed on; WriteTime is how long a browser may take
	// nothing of what is sent to it.
	RequestTime, WriteTime time.Duration
	// QueueBytes bounds what waits for one stream: a client that reads more slowly loses the
	// stream.
	QueueBytes int
	// Ping is how often a stream says that it is alive. StreamAge ends it; the browser opens
	// another. WatchAge is how long the API server lets a watch go on before it asks for the rights
	// anew.
	Ping, StreamAge, WatchAge time.Duration
}

// DefaultLimits are for people who work with it.
func DefaultLimits() Limits {
	return Limits{
		Sessions: 1000, SessionsPerUser: 16, SessionAge: 12 * time.Hour, SessionIdle: time.Hour,
		LinkAge: time.Hour, Logins: 16, RequestsPerSession: 32, StreamsPerSession: 8, Connections: 4096,
		BodyBytes: 3 << 20, AnswerBytes: 256 << 20,
		RequestTime: 2 * time.Minute, WriteTime: 30 * time.Second, QueueBytes: 16 << 20,
		Ping: 20 * time.Second, StreamAge: time.Hour, WatchAge: 10 * time.Minute,
	}
}

func orDefault[T int | int64 | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

func (l Limits) filled() Limits {
	d := DefaultLimits()
	orDefault(&l.Sessions, d.Sessions)
	orDefault(&l.SessionsPerUser, d.SessionsPerUser)
	orDefault(&l.SessionAge, d.SessionAge)
	orDefault(&l.SessionIdle, d.SessionIdle)
	orDefault(&l.LinkAge, d.LinkAge)
	orDefault(&l.Logins, d.Logins)
	orDefault(&l.RequestsPerSession, d.RequestsPerSession)
	orDefault(&l.StreamsPerSession, d.StreamsPerSession)
	orDefault(&l.Connections, d.Connections)
	orDefault(&l.BodyBytes, d.BodyBytes)
	orDefault(&l.AnswerBytes, d.AnswerBytes)
	orDefault(&l.RequestTime, d.RequestTime)
	orDefault(&l.WriteTime, d.WriteTime)
	orDefault(&l.QueueBytes, d.QueueBytes)
	orDefault(&l.Ping, d.Ping)
	orDefault(&l.StreamAge, d.StreamAge)
	orDefault(&l.WatchAge, d.WatchAge)
	return l
}

// origin is one of Options.Origins, taken apart.
type origin struct {
	text, host string
	secure     bool
}

func parseOrigin(s string) (origin, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return origin{}, fmt.Errorf("origin %q: %w", s, err)
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.User != nil, u.Path != "" && u.Path != "/", u.RawQuery != "", u.Fragment != "":
		return origin{}, fmt.Errorf("origin %q: want http://HOST:PORT or https://HOST", s)
	}
	return origin{text: u.Scheme + "://" + u.Host, host: u.Host, secure: u.Scheme == "https"}, nil
}

func parseOrigins(texts []string, mode Mode) ([]origin, error) {
	if len(texts) == 0 {
		return nil, errors.New("a console needs an origin")
	}
	var out []origin
	for _, s := range texts {
		o, err := parseOrigin(s)
		if err != nil {
			return nil, err
		}
		if mode == Cluster && !o.secure {
			return nil, fmt.Errorf("origin %q: tokens are taken over https only", s)
		}
		if o.secure && mode == Local {
			return nil, fmt.Errorf("origin %q: the console of one person is reached by http on loopback", s)
		}
		out = append(out, o)
	}
	return out, nil
}

// LocalOrigins are the origins of a listener on loopback. An error says that others could reach it.
func LocalOrigins(address net.Addr) ([]string, error) {
	ap, err := netip.ParseAddrPort(address.String())
	if err != nil || !ap.Addr().Unmap().IsLoopback() {
		return nil, fmt.Errorf("%s is not an address of loopback: the console of one person is for this machine only", address)
	}
	host := netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
	return []string{"http://" + host.String(), fmt.Sprintf("http://localhost:%d", ap.Port())}, nil
}
