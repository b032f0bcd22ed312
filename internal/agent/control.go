package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nephele-io/nephele/internal/agent/cni"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
)

const (
	// releaseLimit is for how long a host can be released at once.
	releaseLimit = 30 * 24 * time.Hour
	// requestLimit bounds a request on the host.
	requestLimit = 64 << 10
	// keptLimit bounds the list of attachments that there are still.
	keptLimit = 1 << 20
)

// Question is what an administrator asks about a connection of the host.
type Question struct {
	// Peer is the other end, Local the address of the host.
	Peer     netip.Addr    `json:"peer"`
	Local    netip.Addr    `json:"local"`
	Egress   bool          `json:"egress"`
	Protocol uint8         `json:"protocol"`
	Port     uint16        `json:"port"`
	Type     uint8         `json:"type"`
	Code     uint8         `json:"code"`
	For      time.Duration `json:"for"`
}

func (q Question) packet() ruleset.Packet {
	p := ruleset.Packet{Source: q.Peer, Destination: q.Local, Protocol: q.Protocol, Port: q.Port, Type: q.Type, Code: q.Code}
	if q.Egress {
		p.Direction, p.Source, p.Destination = ruleset.Egress, q.Local, q.Peer
	}
	return p
}

// Answer is what becomes of the connection.
type Answer struct {
	Action string `json:"action"`
	// By is the rule that says so.
	By string `json:"by"`
	// Allowed tells that the connection passes our rules.
	Allowed bool `json:"allowed"`
}

// Serve answers requests on the host, on a socket that only its administrator may use, until ctx
// ends.
func (a *Agent) Serve(ctx context.Context, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("serve the agent on the host: %w", err)
	}
	// A socket that a killed process has left is in the way, and one of another agent is his.
	if c, err := (&net.Dialer{}).DialContext(ctx, "unix", path); err == nil {
		return errors.Join(fmt.Errorf("serve the agent on the host: another process answers at %s", path), c.Close())
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("serve the agent on the host: %w", err)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return fmt.Errorf("serve the agent on the host: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return errors.Join(fmt.Errorf("serve the agent on the host: %w", err), l.Close())
	}
	server := &http.Server{Handler: socket{a}.handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the agent on the host: %w", err)
	}
	return nil
}

// socket is what an agent answers on the host.
type socket struct{ agent *Agent }

func (s socket) handler() http.Handler {
	a := s.agent
	mux := http.NewServeMux()
	reply := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v) // an error means that the client is gone
	}
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { reply(w, a.Status()) })
	mux.HandleFunc("POST /explain", func(w http.ResponseWriter, r *http.Request) {
		q, ok := readQuestion(w, r)
		if !ok {
			return
		}
		if !q.Peer.IsValid() || !q.Local.IsValid() || q.Peer.Unmap().Is4() != q.Local.Unmap().Is4() {
			http.Error(w, "want two addresses of one family", http.StatusBadRequest)
			return
		}
		j, ok := a.Explain(q.packet())
		if !ok {
			http.Error(w, "nothing is enforced yet", http.StatusServiceUnavailable)
			return
		}
		reply(w, Answer{j.Action.String(), j.By.String(), j.Allows()})
	})
	mux.HandleFunc("POST /release", func(w http.ResponseWriter, r *http.Request) {
		q, ok := readQuestion(w, r)
		if !ok {
			return
		}
		if q.For < 0 || q.For > releaseLimit {
			http.Error(w, fmt.Sprintf("a host can be released for up to %s", releaseLimit), http.StatusBadRequest)
			return
		}
		var until time.Time
		if q.For > 0 {
			until = a.options.Clock.Now().Add(q.For)
		}
		if err := a.Release(until); err != nil {
			http.Error(w, "released, but a restart of the agent ends it: "+err.Error(), http.StatusInternalServerError)
			return
		}
		reply(w, a.Status())
	})
	if a.options.Pods != nil {
		s.handleAttachments(mux)
	}
	if n := cmp.Or(a.options.Network, a.sealing); n != nil && n.Keys != nil {
		mux.HandleFunc("POST /renew-key", func(w http.ResponseWriter, _ *http.Request) {
			key, err := n.RenewKey()
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			reply(w, map[string]string{"key": key.String()})
		})
	}
	if a.options.Unchain != nil {
		mux.HandleFunc("POST /unchain", func(w http.ResponseWriter, _ *http.Request) {
			a.options.Unchain()
			reply(w, a.Status())
		})
	}
	return mux
}

// handleAttachments answers the CNI plugin.
func (s socket) handleAttachments(mux *http.ServeMux) {
	a := s.agent
	attachment := func(check func(*cni.Attachment) error, do func(context.Context, cni.Attachment) error) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			var about cni.Attachment
			if !readJSON(w, r, requestLimit, &about) {
				return
			}
			if err := check(&about); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			// Nothing more is read, and the client may wait.
			_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
			ctx, cancel := context.WithTimeout(r.Context(), cni.AddLimit)
			defer cancel()
			replyDone(w, do(ctx, about))
		}
	}
	mux.HandleFunc("POST "+cni.PathAssign, func(w http.ResponseWriter, r *http.Request) {
		var wanted cni.Wanted
		if !readJSON(w, r, requestLimit, &wanted) {
			return
		}
		if err := wanted.Check(); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if a.options.Network == nil {
			http.Error(w, "this agent does not make the network of the Node: its mode is networkPolicyOnly", http.StatusBadRequest)
			return
		}
		if a.options.Pods.Blind() && !slices.Contains(a.options.Essential, wanted.Namespace) {
			replyDone(w, errors.New("it is not known which Pods the Node has, and which addresses they have"))
			return
		}
		got, err := a.options.Network.Assign(wanted.Attachment)
		if err != nil {
			replyDone(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(got) // the plugin is gone, and the runtime ends the attachment by DEL
	})
	mux.HandleFunc("POST "+cni.PathAdd, attachment((*cni.Attachment).Normalize, a.Admit))
	mux.HandleFunc("POST "+cni.PathCheck, attachment((*cni.Attachment).Normalize, func(_ context.Context, about cni.Attachment) error {
		if !a.options.Pods.Holds(about) {
			return errors.New("the agent does not know the Pod by these addresses")
		}
		return nil
	}))
	mux.HandleFunc("POST "+cni.PathDelete, attachment((*cni.Attachment).CheckIdentity, func(_ context.Context, about cni.Attachment) error {
		a.options.Pods.Detach(about, nil)
		if a.options.Network != nil {
			a.options.Network.Release(about.Container, about.Interface)
		}
		return nil
	}))
	mux.HandleFunc("POST "+cni.PathKeep, func(w http.ResponseWriter, r *http.Request) {
		var kept cni.Kept
		if readJSON(w, r, keptLimit, &kept) {
			a.options.Pods.Keep(kept.Attachments)
			var err error
			if a.options.Network != nil {
				err = a.options.Network.Retain(kept.Attachments)
			}
			replyDone(w, err)
		}
	})
	mux.HandleFunc("POST "+cni.PathReady, func(w http.ResponseWriter, _ *http.Request) {
		replyDone(w, s.ready())
	})
}

// ready returns why no Pods can be taken in; nil if they can.
func (s socket) ready() error {
	a := s.agent
	switch now := a.Status(); {
	case now.State == StateStarting:
		return errors.New("nothing is enforced yet")
	case now.Kernel.Error != "":
		return errors.New(now.Kernel.Error)
	case a.options.Network != nil:
		return a.options.Network.Ready()
	}
	return nil
}

// replyDone tells that something is done, or why it is not: for good, or for now.
func replyDone(w http.ResponseWriter, err error) {
	var refused cni.Refusal
	switch {
	case err == nil:
		w.WriteHeader(http.StatusOK)
	case errors.As(err, &refused):
		http.Error(w, err.Error(), http.StatusBadRequest)
	default:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}

func readJSON(w http.ResponseWriter, r *http.Request, limit int64, into any) bool {
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, limit)).Decode(into); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return false
	}
	return true
}

func readQuestion(w http.ResponseWriter, r *http.Request) (q Question, ok bool) {
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, requestLimit)).Decode(&q); err != nil && !errors.Is(err, io.EOF) {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return q, false
	}
	return q, true
}
