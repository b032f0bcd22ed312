package controlplane

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"gopkg.in/natefinch/lumberjack.v2"
	"k8s.io/klog/v2"
)

// logFiles receive what the libraries log; nothing of it may reach the terminal.
type logFiles struct {
	kubernetes *lumberjack.Logger
	etcd       *lumberjack.Logger
}

// openLogs sends klog, which is one per process, to logs/kubernetes.log.
func openLogs(dir *dataDir) (*logFiles, error) {
	if err := klogToWriter(); err != nil {
		return nil, fmt.Errorf("set up logging: %w", err)
	}
	quietEtcdClients()
	rotated := func(name string) *lumberjack.Logger {
		return &lumberjack.Logger{Filename: filepath.Join(dir.logs(), name), MaxSize: 20 /* MB */, MaxBackups: 3}
	}
	l := &logFiles{kubernetes: rotated("kubernetes.log"), etcd: rotated("etcd.log")}
	klog.SetOutput(l.kubernetes)
	// A library that gives up calls this. It must not return, but it can say where to look.
	klog.OsExit = func(code int) {
		fmt.Fprintf(os.Stderr, "nephele: the Kubernetes API server gave up (status %d); the last lines of %s say why\n", code, l.kubernetes.Filename)
		os.Exit(1)
	}
	return l, nil
}

// klogToWriter makes klog write to what SetOutput names and to nothing else. These flags are plain
// variables read by every goroutine that logs, so they are set once, before the first control plane
// of the process starts any.
var klogToWriter = sync.OnceValue(func() error {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	return errors.Join(
		flags.Set("logtostderr", "false"),
		flags.Set("stderrthreshold", "FATAL"),
		flags.Set("one_output", "true"),
	)
})

// Quiet keeps what the libraries log off the terminal, for a process that runs no control plane.
func Quiet() error {
	if err := klogToWriter(); err != nil {
		return fmt.Errorf("set up logging: %w", err)
	}
	klog.SetOutput(io.Discard)
	return nil
}

// etcdLogger writes warnings and errors of etcd to logs/etcd.log.
func (l *logFiles) etcdLogger() *zap.Logger {
	encoder := zap.NewProductionEncoderConfig()
	encoder.EncodeTime = zapcore.ISO8601TimeEncoder
	core := zapcore.NewCore(zapcore.NewJSONEncoder(encoder), zapcore.AddSync(l.etcd), zapcore.WarnLevel)
	end := givingUp{out: os.Stderr, log: l.etcd.Filename, exit: os.Exit}
	return zap.New(core, zap.WithFatalHook(end), zap.WithPanicHook(end))
}

// givingUp is what happens when etcd cannot go on, as on a full disk: it would panic, and a stack
// trace does not help an operator who has to free space. The process ends; nothing that was
// acknowledged is lost.
type givingUp struct {
	out  io.Writer
	log  string
	exit func(code int)
}

// notAmongMembers is what a member says that hears of its own removal while it does something else.
const notAmongMembers = "failed to find local ID in cluster members"

// OnWrite implements zapcore.CheckWriteHook.
func (g givingUp) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	why := entry.Message
	for _, f := range fields {
		if err, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType {
			why += ": " + err.Error()
		}
	}
	if strings.Contains(why, notAmongMembers) {
		fmt.Fprintf(g.out, "nephele: etcd: %v\n", errRemoved)
		g.exit(1)
		return
	}
	hint := "the last lines of " + g.log + " say more"
	if strings.Contains(why, syscall.ENOSPC.Error()) {
		hint = "free some space and start again; nothing is lost"
	}
	fmt.Fprintf(g.out, "nephele: etcd gave up: %s; %s\n", why, hint)
	g.exit(1)
}

func (l *logFiles) close() error {
	klog.Flush()
	klog.SetOutput(io.Discard)
	return errors.Join(l.kubernetes.Close(), l.etcd.Close())
}
