package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"
)

// Type is the type of the plugin in the configuration of a runtime, and the name of its program.
const Type = "nephele-cni"

// DefaultSocket is where the agent answers.
const DefaultSocket = "/run/nephele/agent.sock"

// WhenAway is what becomes of new Pods while no agent answers.
type WhenAway string

// What may become of them.
const (
	// Close lets no Pod start. It is the default.
	Close WhenAway = "close"
	// Open lets Pods start, and the agent finds out about them later.
	Open WhenAway = "open"
)

// Check returns what is wrong with a value.
func (w WhenAway) Check() error {
	if w != Close && w != Open {
		return fmt.Errorf("whenAgentIsAway %q: want %q or %q", cut(string(w)), Close, Open)
	}
	return nil
}

const (
	// inputLimit bounds the configuration that a runtime gives the plugin.
	inputLimit = 1 << 20
	// codeRefused is the code of errors of our own.
	codeRefused = 100
)

// config is what the plugin is configured with.
type config struct {
	types.PluginConf
	Socket          string   `json:"socket,omitempty"`
	WhenAgentIsAway WhenAway `json:"whenAgentIsAway,omitempty"`
	// Network tells that the plugin makes the network of Pods. Else it comes behind others that do.
	Network bool `json:"network,omitempty"`
}

// Versions returns the versions of the specification that the plugin knows: a chained plugin needs
// the result of the one before it.
func Versions() version.PluginInfo {
	return version.PluginSupports("0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")
}

// Main is the plugin: it does what the environment says and returns the exit code.
func Main(ctx context.Context, about string) int {
	err := bound()
	if err == nil {
		p := plugin{ctx}
		err = skel.PluginMainFuncsWithError(skel.CNIFuncs{Add: p.add, Del: p.remove, Check: p.check, GC: p.keep, Status: p.status}, Versions(), about)
	}
	if err == nil {
		return 0
	}
	if failed := err.Print(); failed != nil {
		fmt.Fprintln(os.Stderr, err, failed)
	}
	return 1
}

// bound reads what a runtime has to say, up to a limit, and leaves it for package skel, which would
// read without one.
func bound() *types.Error {
	if os.Getenv("CNI_COMMAND") == "VERSION" { // there is nothing to read
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(os.Stdin, inputLimit+1))
	if err == nil && len(text) > inputLimit {
		err = fmt.Errorf("the configuration is longer than %d bytes", inputLimit)
	}
	var r, w *os.File
	if err == nil {
		r, w, err = os.Pipe()
	}
	if err != nil {
		return types.NewError(types.ErrIOFailure, err.Error(), "")
	}
	os.Stdin = r
	go func() {
		_, _ = w.Write(text) // a runtime that does not read all of it has ended
		_ = w.Close()
	}()
	return nil
}

type plugin struct{ ctx context.Context }

// read reads the configuration.
func read(args *skel.CmdArgs) (*config, error) {
	c := &config{Socket: DefaultSocket, WhenAgentIsAway: Close}
	if err := json.Unmarshal(args.StdinData, c); err != nil {
		return nil, types.NewError(types.ErrDecodingFailure, "configuration of "+Type+": "+err.Error(), "")
	}
	if err := c.WhenAgentIsAway.Check(); err != nil {
		return nil, types.NewError(types.ErrInvalidNetworkConfig, err.Error(), "")
	}
	if err := version.ParsePrevResult(&c.PluginConf); err != nil {
		return nil, types.NewError(types.ErrDecodingFailure, "result of the plugin before: "+err.Error(), "")
	}
	return c, nil
}

// podOf reads CNI_ARGS as far as they say which Pod it is.
func podOf(args string) (out Attachment, err error) {
	for _, pair := range strings.Split(args, ";") {
		key, value, _ := strings.Cut(pair, "=")
		switch key {
		case "K8S_POD_NAMESPACE":
			out.Namespace = value
		case "K8S_POD_NAME":
			out.Name = value
		case "K8S_POD_UID":
			out.UID = value
		}
	}
	if out.Namespace == "" || out.Name == "" {
		return out, errors.New("want K8S_POD_NAMESPACE and K8S_POD_NAME, which say whose network it is")
	}
	return out, nil
}

// attachment is what a runtime says of an interface, and the plugin before has made.
func attachment(args *skel.CmdArgs, c *config) (*Attachment, error) {
	out := &Attachment{Container: args.ContainerID, Interface: args.IfName}
	stated, err := podOf(args.Args)
	if err != nil {
		return nil, types.NewError(types.ErrInvalidEnvironmentVariables, "CNI_ARGS: "+err.Error(), "")
	}
	out.Namespace, out.Name, out.UID = stated.Namespace, stated.Name, stated.UID
	if c.PrevResult == nil {
		return nil, types.NewError(types.ErrInvalidNetworkConfig, Type+" has no result of a plugin before it: it must not be the first one of its list", "")
	}
	result, err := current.NewResultFromResult(c.PrevResult)
	if err != nil {
		return nil, types.NewError(types.ErrDecodingFailure, "result of the plugin before: "+err.Error(), "")
	}
	for _, ip := range result.IPs {
		if i := ip.Interface; i != nil && *i >= 0 && *i < len(result.Interfaces) && result.Interfaces[*i].Sandbox == "" {
			continue // on the Node
		}
		if a, ok := netip.AddrFromSlice(ip.Address.IP); ok {
			out.Addresses = append(out.Addresses, a)
		}
	}
	if err := out.Normalize(); err != nil {
		return nil, types.NewError(types.ErrInvalidNetworkConfig, err.Error(), "")
	}
	return out, nil
}

func (p plugin) add(args *skel.CmdArgs) error {
	c, err := read(args)
	if err != nil {
		return err
	}
	if c.Network {
		return p.connect(args, c)
	}
	about, err := attachment(args, c)
	if err != nil {
		return err
	}
	if err := c.outcome(ask(p.ctx, c.Socket, PathAdd, about, nil, AddLimit+askLimit)); err != nil {
		return err
	}
	return types.PrintResult(c.PrevResult, c.CNIVersion)
}

func (p plugin) check(args *skel.CmdArgs) error {
	c, err := read(args)
	if err != nil {
		return err
	}
	about, err := attachment(args, c)
	if err != nil {
		return err
	}
	if c.Network {
		if err := checkPod(args, about); err != nil {
			return types.NewError(codeRefused, err.Error(), "")
		}
	}
	return c.outcome(ask(p.ctx, c.Socket, PathCheck, about, nil, askLimit))
}

// remove never keeps a Pod from ending: an agent that is away finds out from the API server.
func (p plugin) remove(args *skel.CmdArgs) error {
	c := &config{Socket: DefaultSocket}
	if err := json.Unmarshal(args.StdinData, c); err != nil {
		return types.NewError(types.ErrDecodingFailure, "configuration of "+Type+": "+err.Error(), "")
	}
	if c.Network { // before the addresses are somebody else's
		if err := removePod(args.ContainerID, args.IfName); err != nil {
			return types.NewError(types.ErrTryAgainLater, err.Error(), "")
		}
	}
	about := &Attachment{Container: args.ContainerID, Interface: args.IfName}
	if err := ask(p.ctx, c.Socket, PathDelete, about, nil, askLimit); err != nil {
		fmt.Fprintln(os.Stderr, Type+": the agent does not know that the Pod ends:", err)
	}
	return nil
}

func (p plugin) keep(args *skel.CmdArgs) error {
	c, err := read(args)
	if err != nil {
		return err
	}
	kept := Kept{Attachments: []Attachment{}}
	for _, a := range c.ValidAttachments {
		kept.Attachments = append(kept.Attachments, Attachment{Container: a.ContainerID, Interface: a.IfName})
	}
	return c.outcome(ask(p.ctx, c.Socket, PathKeep, kept, nil, askLimit))
}

func (p plugin) status(args *skel.CmdArgs) error {
	c, err := read(args)
	if err != nil {
		return err
	}
	err = c.outcome(ask(p.ctx, c.Socket, PathReady, nil, nil, askLimit))
	var failed *types.Error
	if errors.As(err, &failed) {
		return types.NewError(types.ErrPluginNotAvailable, failed.Msg, failed.Details)
	}
	return err
}

// outcome is the error of the plugin for what asking the agent has ended with.
func (c *config) outcome(err error) error {
	var away awayError
	var refused refusedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &away) && c.WhenAgentIsAway == Open && !c.Network:
		fmt.Fprintln(os.Stderr, Type+": going on without the agent:", err)
		return nil
	case errors.As(err, &away), errors.As(err, &refused) && refused.later:
		return types.NewError(types.ErrTryAgainLater, err.Error(),
			"new Pods wait until their policies are in force; see \"nephele-agent status\" on the Node, and docs/agent-node.md about how to remove this plugin")
	}
	return types.NewError(codeRefused, err.Error(), "")
}
