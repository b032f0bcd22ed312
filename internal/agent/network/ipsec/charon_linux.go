package ipsec

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/strongswan/govici/vici"

	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/agent/network"
)

const (
	// callLimit bounds the wait for one answer of charon.
	callLimit = 3 * time.Second
	// initiateLimit bounds the wait for another Node.
	initiateLimit = 15 * time.Second

	// ikeProposal and espProposal are of what FIPS 140 approves, and nothing else is taken.
	ikeProposal, espProposal = "aes256gcm16-prfsha384-ecp384", "aes256gcm16-ecp384"
	// rekeyIKE and rekeyESP are after how long, and rekeyPackets after how many packets there are
	// new keys: long before a counter of AES-GCM or of ESP ends.
	rekeyIKE, rekeyESP, rekeyPackets = "4h", "1h", "2000000000"
	// aliveDelay is how long another Node may be silent before it is asked whether it is there.
	aliveDelay = "10s"
	// child is the name of the one CHILD_SA of a connection.
	child = "pods"

	// spare is for how many more answers there is room than are expected; maxCertificates and
	// maxLines are how many certificates charon may have, and lines of its log a call.
	spare, maxCertificates, maxLines = 256, 256, 256

	pluginOwnESP, pluginKernel = "kernel-libipsec", "kernel-netlink"
	// ownDevice is that which the plugin kernel-libipsec makes.
	// It cuts off what is longer than ownMTU.
	ownDevice, ownMTU = "ipsec0", 1400
)

// charon is a conversation with charon.
type charon struct{ session *vici.Session }

// talk begins a conversation, which ends with close.
func talk(socket string) (*charon, error) {
	dial := func(ctx context.Context, proto, address string) (net.Conn, error) {
		return (&net.Dialer{Timeout: callLimit}).DialContext(ctx, proto, address)
	}
	s, err := vici.NewSession(vici.WithDialContext(dial), vici.WithSocketPath(socket))
	if err != nil {
		return nil, fmt.Errorf("charon, strongSwan's daemon that encrypts by IPsec, does not answer at %s: %w", socket, err)
	}
	return &charon{s}, nil
}

func (c *charon) close() { _ = c.session.Close() } // nothing is lost

func (c *charon) call(command string, in *vici.Message) (*vici.Message, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	out, err := c.session.Call(ctx, command, in)
	if err != nil {
		return nil, fmt.Errorf("charon: %s: %w", command, err)
	}
	return out, nil
}

// list makes a call that is answered by events before it ends, of which there is room for so many.
// The library has CallStreaming for that, which loses events beyond 128, and at random the last
// ones. Events of a subscription are all there when the call ends.
func (c *charon) list(command, event string, in *vici.Message, room int) (out []*vici.Message, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	return c.listFor(ctx, command, event, in, room)
}

func (c *charon) listFor(ctx context.Context, command, event string, in *vici.Message, room int) (out []*vici.Message, err error) {
	events := make(chan vici.Event, room)
	c.session.NotifyEvents(events)
	defer c.session.StopEvents(events)
	if err := c.session.Subscribe(event); err != nil {
		return nil, fmt.Errorf("charon: follow %s: %w", event, err)
	}
	_, err = c.session.Call(ctx, command, in)
	for {
		select {
		case e, open := <-events:
			if !open {
				return out, errors.Join(err, fmt.Errorf("charon: %s: %w", command, io.ErrUnexpectedEOF))
			}
			if e.Name == event {
				out = append(out, e.Message)
			}
			continue
		default:
		}
		if err != nil {
			err = fmt.Errorf("charon: %s: %w", command, err)
		}
		if len(out) == room {
			err = errors.Join(err, fmt.Errorf("charon: %s: more than %d answers", command, room))
		}
		return out, err
	}
}

// known are the identities of the Nodes that charon knows.
func (c *charon) known() ([]string, error) {
	m, err := c.call("get-conns", nil)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(texts(m, "conns"), func(name string) bool { return !cloudv1alpha1.IsIPsecIdentity(name) }), nil
}

// message makes one of pairs of key and value.
func message(pairs ...any) *vici.Message {
	m := vici.NewMessage()
	for i := 0; i < len(pairs); i += 2 {
		if err := m.Set(pairs[i].(string), pairs[i+1]); err != nil {
			panic(fmt.Sprintf("a message to charon with %v: %v", pairs[i], err)) // of what we wrote
		}
	}
	return m
}

func text(m *vici.Message, key string) string {
	s, _ := m.Get(key).(string)
	return s
}

func texts(m *vici.Message, key string) []string {
	s, _ := m.Get(key).([]string)
	return s
}

// section is a part of a message; an empty one if it is not there.
func section(m *vici.Message, key string) *vici.Message {
	if s, ok := m.Get(key).(*vici.Message); ok && s != nil {
		return s
	}
	return vici.NewMessage()
}

// device finds out what encrypts, and by which link.
func (c *charon) device() (link string, own bool, err error) {
	m, err := c.call("stats", nil)
	if err != nil {
		return "", false, err
	}
	switch plugins := texts(m, "plugins"); {
	case slices.Contains(plugins, pluginOwnESP):
		return ownDevice, true, nil
	case slices.Contains(plugins, pluginKernel):
		return network.IPsecDevice, false, nil
	}
	return "", false, fmt.Errorf("charon has neither the plugin %s nor %s, so it cannot encrypt packets", pluginKernel, pluginOwnESP)
}

// proves reports whether charon has the credential of the Node.
func (c *charon) proves(p credential) (bool, error) {
	list, err := c.list("list-certs", "list-cert", message("type", "X509"), maxCertificates)
	if err != nil {
		return false, err
	}
	has := func(raw []byte, key bool) bool {
		return slices.ContainsFunc(list, func(m *vici.Message) bool {
			return text(m, "data") == string(raw) && (!key || text(m, "has_privkey") == "yes")
		})
	}
	if !has(p.certificate.Raw, true) {
		return false, nil
	}
	for _, a := range p.authorities {
		if !has(a.Raw, false) {
			return false, nil
		}
	}
	return true, nil
}

// prove gives charon the credential of the Node, and takes all others from it.
func (c *charon) prove(p credential) error {
	if _, err := c.call("clear-creds", nil); err != nil {
		return err
	}
	for _, a := range p.authorities {
		if _, err := c.call("load-cert", message("type", "X509", "flag", "CA", "data", inPEM(a.Raw))); err != nil {
			return err
		}
	}
	if _, err := c.call("load-cert", message("type", "X509", "flag", "NONE", "data", inPEM(p.certificate.Raw))); err != nil {
		return err
	}
	_, err := c.call("load-key", message("type", "any", "data", string(bytes.TrimSpace(p.key))))
	return err
}

func inPEM(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: der}))
}

// peers are the other Nodes that charon knows, by their identities.
func (c *charon) peers() (map[string]network.SealedPeer, error) {
	known, err := c.known()
	if err != nil {
		return nil, err
	}
	list, err := c.list("list-conns", "list-conn", nil, 2*len(known)+spare)
	if err != nil {
		return nil, err
	}
	out := map[string]network.SealedPeer{}
	for _, m := range list {
		for _, name := range m.Keys() {
			if cloudv1alpha1.IsIPsecIdentity(name) {
				out[name] = peerOf(name, section(m, name))
			}
		}
	}
	return out, nil
}

// peerOf reads a connection. What is not as we write it is left out, so that it is written again.
func peerOf(name string, m *vici.Message) network.SealedPeer {
	var p network.SealedPeer
	if text(section(m, "remote-1"), "id") == name {
		p.Identity = name
	}
	first := func(list []string) (a netip.Addr) {
		if len(list) == 1 {
			a, _ = netip.ParseAddr(list[0])
		}
		return a
	}
	p.Local = first(texts(m, "local_addrs"))
	port := uint64(network.IPsecPort) // which old versions do not tell
	if written := text(m, "remote_port"); written != "" {
		port, _ = strconv.ParseUint(written, 10, 16)
	}
	p.Endpoint = netip.AddrPortFrom(first(texts(m, "remote_addrs")), uint16(port))
	pods := section(section(m, "children"), child)
	p.Own, p.Allowed = ranges(texts(pods, "local-ts")), ranges(texts(pods, "remote-ts"))
	return p
}

func ranges(list []string) (out []netip.Prefix) {
	for _, t := range list {
		if r, err := netip.ParsePrefix(t); err == nil {
			out = append(out, r)
		} else if a, err := netip.ParseAddr(t); err == nil {
			out = append(out, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return out
}

// load makes charon know another Node.
func (c *charon) load(own string, p network.SealedPeer, byKernel bool) error {
	names := func(list []netip.Prefix) (out []string) {
		for _, r := range list {
			out = append(out, r.String())
		}
		return out
	}
	lost := "clear" // the caller tries again
	if p.First {
		lost = "restart"
	}
	pods := message("mode", "tunnel", "local_ts", names(p.Own), "remote_ts", names(p.Allowed), "esp_proposals", []string{espProposal},
		"rekey_time", rekeyESP, "rekey_packets", rekeyPackets, "dpd_action", lost, "close_action", "none", "start_action", "none")
	if byKernel {
		mark := strconv.Itoa(network.IPsecMark)
		for _, key := range []string{"if_id_in", "if_id_out"} {
			if err := pods.Set(key, mark); err != nil {
				return err
			}
		}
	}
	port := strconv.Itoa(network.IPsecPort)
	_, err := c.call("load-conn", message(p.Identity, message(
		"version", "2", "local_addrs", []string{p.Local.String()}, "remote_addrs", []string{p.Endpoint.Addr().String()},
		// ESP goes in UDP by the one port, as IKE does: networks around Nodes let that pass.
		"local_port", port, "remote_port", strconv.Itoa(int(p.Endpoint.Port())), "encap", "yes", "mobike", "no",
		"proposals", []string{ikeProposal}, "rekey_time", rekeyIKE, "dpd_delay", aliveDelay, "unique", "replace", "send_cert", "always",
		"local", message("auth", "pubkey", "id", own),
		"remote", message("auth", "pubkey", "id", p.Identity),
		"children", message(child, pods),
	)))
	return err
}

// unload makes charon forget another Node, and ends what is encrypted to it.
func (c *charon) unload(identity string) error {
	if _, err := c.call("unload-conn", message("name", identity)); err != nil {
		return err
	}
	return c.terminate(identity)
}

// terminate ends what is encrypted to another Node, without a wait for that.
func (c *charon) terminate(identity string) error {
	_, err := c.call("terminate", message("ike", identity, "force", "yes", "timeout", "-1"))
	if err != nil && strings.Contains(err.Error(), "no matching SAs") {
		return nil
	}
	return err
}

// sa is how a connection stands.
type sa struct {
	// begun tells that there is something, and up that packets are encrypted.
	begun, up bool
}

// sas are how the connections stand, by identities.
func (c *charon) sas() (map[string]sa, error) {
	known, err := c.known()
	if err != nil {
		return nil, err
	}
	list, err := c.list("list-sas", "list-sa", message("noblock", "yes"), 4*len(known)+spare)
	if err != nil {
		return nil, err
	}
	out := map[string]sa{}
	for _, m := range list {
		for _, name := range m.Keys() {
			is, ike := out[name], section(m, name)
			is.begun = is.begun || text(ike, "state") != "ESTABLISHED"
			children := section(ike, "child-sas")
			for _, one := range children.Keys() {
				state := text(section(children, one), "state")
				is.begun, is.up = true, is.up || state == "INSTALLED" || strings.HasPrefix(state, "REKEY")
			}
			out[name] = is
		}
	}
	return out, nil
}

var errNotUp = errors.New("no answer")

// initiate calls another Node, and returns why nothing came of it.
func (c *charon) initiate(ctx context.Context, identity string) error {
	ctx, cancel := context.WithTimeout(ctx, initiateLimit)
	defer cancel()
	wait := strconv.Itoa(int((initiateLimit - time.Second) / time.Millisecond))
	lines, err := c.listFor(ctx, "initiate", "control-log", message("child", child, "ike", identity, "timeout", wait, "loglevel", "1"), maxLines)
	if err == nil {
		return nil
	}
	reason := errNotUp
	for _, m := range lines {
		if line := text(m, "msg"); explains(line) {
			reason = errors.New(line)
		}
	}
	return reason
}

// explains reports whether a line of the log says why a connection does not come about.
func explains(line string) bool {
	for _, word := range []string{"no trusted", "notify error", "giving up", "failed", "unable", "not found", "no matching", "constraint"} {
		if strings.Contains(line, word) && !strings.Contains(line, "failed to establish CHILD_SA") {
			return true
		}
	}
	return false
}
