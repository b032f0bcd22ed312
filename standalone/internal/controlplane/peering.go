package controlplane

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/grpclog"

	"github.com/nephele-io/nephele/internal/platform/certs"
)

const (
	// peeringLimit bounds a question to the database, reachLimit one to a member.
	peeringLimit = 15 * time.Second
	reachLimit   = 2 * time.Second
	// changePause is how long to wait before a change is tried again.
	changePause = 500 * time.Millisecond
	// maxMembers is how many there may be: each more makes every change slower.
	maxMembers = 5
)

// Peering adds, shows and removes the members of a database, by one of the control planes on it,
// which runs on this machine.
type Peering struct {
	dir    *dataDir
	client *clientv3.Client
	peers  *http.Client
}

// Member is one of the control planes.
type Member struct {
	// Name is empty for one that has been added and was not started yet.
	Name, Peer string
	// Learner says that it does not count yet: it is catching up. Leads says that the others follow
	// it. Reached says that it answers this machine.
	// Asked says that it is the one that this was asked of.
	Learner, Leads, Reached, Asked bool
	id                             uint64
}

// OpenPeering reaches the control plane that runs on a data directory of this machine.
func OpenPeering(path string) (*Peering, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	d := &dataDir{path: abs}
	at, err := os.ReadFile(filepath.Join(d.path, addressFile))
	if err != nil {
		return nil, &InputError{Flag: "--data-dir", Value: path, Reason: "nothing that runs there has said how it is reached", Hint: "name the data directory of a \"nephele up\" that runs on this machine", Err: err}
	}
	store, err := certs.Open(d.pki(), time.Now)
	if err != nil {
		return nil, err
	}
	own := transport.TLSInfo{CertFile: store.CertFile(etcdClientCert), KeyFile: store.KeyFile(etcdClientCert), TrustedCAFile: store.CertFile(etcdAuthority)}
	config, err := own.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("the keys of the database: %w", err)
	}
	// What goes wrong is in the errors.
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
	p := &Peering{dir: d}
	p.client, err = clientv3.New(clientv3.Config{Endpoints: []string{strings.TrimSpace(string(at))}, TLS: config, DialTimeout: peeringLimit, Logger: zap.NewNop()})
	if err != nil {
		return nil, fmt.Errorf("reach the database: %w", err)
	}
	if pair, err := tls.LoadX509KeyPair(store.CertFile(peerCert), store.KeyFile(peerCert)); err == nil {
		roots := x509.NewCertPool()
		if authority, err := os.ReadFile(store.CertFile(peerAuthority)); err == nil && roots.AppendCertsFromPEM(authority) {
			p.peers = &http.Client{Timeout: reachLimit, Transport: &http.Transport{
				DisableKeepAlives: true, TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots, MinVersion: tls.VersionTLS12},
			}}
		}
	}
	return p, nil
}

// Close ends the connection.
func (p *Peering) Close() error { return p.client.Close() }

// Members are all members as this one knows them, also where there is no majority, and whether they
// answer.
func (p *Peering) Members(ctx context.Context) ([]Member, error) {
	ctx, cancel := context.WithTimeout(ctx, peeringLimit)
	defer cancel()
	list, err := p.client.MemberList(ctx, clientv3.WithSerializable())
	if err != nil {
		return nil, fmt.Errorf("ask for the members: %w", err)
	}
	status, err := p.client.Status(ctx, p.client.Endpoints()[0])
	if err != nil {
		return nil, fmt.Errorf("ask for the members: %w", err)
	}
	out := make([]Member, len(list.Members))
	var asking sync.WaitGroup
	for i, m := range list.Members {
		out[i] = Member{Name: m.Name, Learner: m.IsLearner, Leads: m.ID == status.Leader, id: m.ID, Asked: m.ID == list.Header.MemberId}
		out[i].Reached = out[i].Asked
		if len(m.PeerURLs) > 0 {
			out[i].Peer = strings.TrimPrefix(m.PeerURLs[0], "https://")
		}
		if !out[i].Reached && p.peers != nil {
			asking.Go(func() { out[i].Reached = p.reaches(ctx, out[i].Peer) })
		}
	}
	asking.Wait()
	slices.SortFunc(out, func(a, b Member) int { return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Peer, b.Peer)) })
	return out, nil
}

// reaches reports whether a member answers this one.
func (p *Peering) reaches(ctx context.Context, peer string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+peer+"/version", nil)
	if err != nil {
		return false
	}
	answer, err := p.peers.Do(request)
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// Add makes room for a member, and returns what it is started with.
func (p *Peering) Add(ctx context.Context, name, peer string) (*Invitation, error) {
	if !peerName.MatchString(name) {
		return nil, fmt.Errorf("the name %q: want lower-case letters, digits and -", name)
	}
	at, err := parsePeer(peer)
	if err != nil {
		return nil, fmt.Errorf("--peer %q: %w", peer, err)
	}
	members, err := p.Members(ctx)
	if err != nil {
		return nil, err
	}
	i := &Invitation{Version: invitationVersion, Name: name, Peer: at.String(), Members: map[string]string{name: "https://" + at.String()}, Files: map[string][]byte{}}
	for _, m := range members {
		switch {
		case m.Name == name:
			return nil, fmt.Errorf("there is a member %s, at %s", name, m.Peer)
		case m.Peer == i.Peer:
			return nil, fmt.Errorf("there is a member at %s", m.Peer)
		case m.Name == "":
			return nil, fmt.Errorf("the member at %s was added and has not been started yet: start it, or remove it by that address", m.Peer)
		case strings.Contains(m.Peer, "://"):
			return nil, errors.New("the first member cannot be reached by others: start it with --peer-listen")
		}
		i.Members[m.Name] = "https://" + m.Peer
	}
	if len(members) >= maxMembers {
		return nil, fmt.Errorf("there are %d members, which is as many as may be", len(members))
	}
	for _, file := range sharedFiles() {
		if i.Files[file], err = os.ReadFile(filepath.Join(p.dir.pki(), file)); err != nil {
			return nil, fmt.Errorf("read what the members share: %w", err)
		}
	}
	err = change(ctx, func(ctx context.Context) error {
		_, err := p.client.MemberAddAsLearner(ctx, []string{i.Members[name]})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("add the member: %w", err)
	}
	return i, nil
}

// Remove takes a member out, named as it is or by its address.
func (p *Peering) Remove(ctx context.Context, which string) error {
	members, err := p.Members(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(members, func(m Member) bool { return m.Name == which || m.Peer == which })
	switch {
	case i < 0:
		return fmt.Errorf("there is no member %q", which)
	case len(members) == 1:
		return errors.New("it is the only member")
	}
	err = change(ctx, func(ctx context.Context) error {
		_, err := p.client.MemberRemove(ctx, members[i].id)
		return err
	})
	if err != nil {
		return fmt.Errorf("remove the member: %w", err)
	}
	return nil
}

// change changes the members. It retries, because members that have just connected refuse changes
// at first.
func change(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, peeringLimit)
	defer cancel()
	for {
		err := do(ctx)
		if !errors.Is(err, rpctypes.ErrUnhealthy) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("without the members that are away there would not be enough, or they have not heard one another for long: %w", err)
		case <-time.After(changePause):
		}
	}
}

// Quorum says how many members count, how many of these have to answer, and how many do.
func Quorum(members []Member) (all, needed, reached int) {
	for _, m := range members {
		if m.Learner {
			continue
		}
		if all++; m.Reached {
			reached++
		}
	}
	return all, all/2 + 1, reached
}
