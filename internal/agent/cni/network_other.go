//go:build !linux

package cni

import (
	"errors"

	"github.com/containernetworking/cni/pkg/skel"
	current "github.com/containernetworking/cni/pkg/types/100"
)

var errLinux = errors.New("the network of Pods is made on Linux only")

func makePod(*skel.CmdArgs, *Assigned) (*current.Result, error) { return nil, errLinux }

func removePod(string, string) error { return errLinux }

func checkPod(*skel.CmdArgs, *Attachment) error { return errLinux }
