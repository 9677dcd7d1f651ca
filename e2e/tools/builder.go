package tools

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/mod/module"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
)

// builder makes one tool of one version for one architecture.
type builder struct {
	tool    Tool
	version string
	arch    string
	log     io.Writer
}

// output is the name of the tool's file.
func (b builder) output() string { return filled(b.tool.Output, b.version, b.arch) }

// get returns the path of the tool: from the folder cache, downloaded or built.
func (b builder) get(ctx context.Context, cache string) (string, error) {
	compiler, err := compilerVersion(ctx)
	if err != nil {
		return "", err
	}
	output, built := b.output(), filepath.Join(cache, b.key(compiler))
	if base.Exists(built) || b.tool.Release.URL == "" {
		return b.build(ctx, built, compiler)
	}
	released := filepath.Join(cache, fmt.Sprintf("%s_%s_linux_%s_released", b.tool.Name, b.version, b.arch))
	err = base.Once(ctx, released, b.log, func(folder string) error { return b.download(ctx, folder) })
	if away, ok := errors.AsType[*awayError](err); ok {
		fmt.Fprintf(b.log, "building %s %s, because the download failed: %v\n", b.tool.Name, b.version, away.error)
		return b.build(ctx, built, compiler)
	}
	return filepath.Join(released, output), err
}

// build returns the path of the tool that was built from its module, in its folder.
func (b builder) build(ctx context.Context, folder, compiler string) (string, error) {
	output := b.output()
	err := base.Once(ctx, folder, b.log, func(folder string) error {
		fmt.Fprintf(b.log, "building %s %s with %s for linux/%s …\n", b.tool.Name, b.version, compiler, b.arch)
		start := time.Now()
		if err := b.make(ctx, folder, start); err != nil {
			return err
		}
		info, err := os.Stat(filepath.Join(folder, output))
		if err != nil {
			return fmt.Errorf("looking for the built program: %w", err)
		}
		fmt.Fprintf(b.log, "built %s %s: %.1f MB in %.0f s\n",
			b.tool.Name, b.version, float64(info.Size())/1e6, time.Since(start).Seconds())
		return nil
	})
	return filepath.Join(folder, output), err
}

// key names the entry in the cache. It ends in a hash of the build's arguments,
// so that changed arguments cause a new build.
func (b builder) key(compiler string) string {
	sum := sha256.Sum256([]byte(strings.Join(b.arguments("."), "\x00")))
	return fmt.Sprintf("%s_%s_linux_%s_%s_%x", b.tool.Name, b.version, b.arch, compiler, sum[:4])
}

// make builds in a scratch folder, verifies the result there, and leaves only
// the finished file in folder.
func (b builder) make(ctx context.Context, folder string, start time.Time) error {
	upstream, err := fetch(ctx, b.tool.Module, b.version)
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp(folder, "scratch-*")
	if err != nil {
		return fmt.Errorf("making a scratch folder: %w", err)
	}
	defer os.RemoveAll(scratch)
	programs := filepath.Join(scratch, "programs")
	if err := b.compile(ctx, upstream, scratch, programs, start); err != nil {
		return err
	}
	if b.arch != runtime.GOARCH {
		fmt.Fprintf(b.log, "  not checking the version of %s: it is built for %s, this machine is %s\n", b.tool.Name, b.arch, runtime.GOARCH)
	}
	for _, name := range b.tool.Packages {
		if err := b.verify(ctx, programs, name); err != nil {
			return err
		}
	}
	final := filepath.Join(folder, b.output())
	if b.tool.Archive != nil {
		return b.tool.Archive.pack(programs, upstream, final)
	}
	if err := os.Rename(filepath.Join(programs, program(b.importPath(b.tool.Packages[0]))+b.suffix()), final); err != nil {
		return fmt.Errorf("moving the program into place: %w", err)
	}
	return nil
}

// compile runs the Go command in a wrapper module made in scratch.
func (b builder) compile(ctx context.Context, upstream source, scratch, programs string, start time.Time) error {
	text, err := upstream.wrapper(b.version)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(scratch, "go.mod"), text, 0o644); err != nil {
		return fmt.Errorf("writing the wrapper module: %w", err)
	}
	// The tests' machine has few cores and other load.
	command := exec.CommandContext(ctx, "nice", append([]string{"go"}, b.arguments(programs)...)...)
	command.Dir = scratch
	cgo := "0"
	if len(b.tool.Libraries) > 0 {
		if err := base.Install(ctx, b.log, b.tool.Libraries...); err != nil {
			return err
		}
		cgo = "1"
	}
	command.Env = append(os.Environ(), "CGO_ENABLED="+cgo, "GOOS=linux", "GOARCH="+b.arch, "GOFLAGS=-mod=mod",
		"GOWORK=off", "GOGC=800", "GOMEMLIMIT=2GiB") // compilers that seldom collect need a fifth less time
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	// An interrupted Go command also stops its compilers; a killed one leaves them
	// running.
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 10 * time.Second
	stop := b.heartbeat(start)
	err = command.Run()
	stop()
	if err != nil {
		return fmt.Errorf("running go %s: %w%s", b.arguments(programs)[0], err, tail(output.String()))
	}
	return nil
}

// arguments returns the arguments of the Go command. The programs go to the
// folder programs.
func (b builder) arguments(programs string) []string {
	linker := []string{"-s", "-w"}
	for _, variable := range b.tool.Variables {
		linker = append(linker, "-X", filled(variable, b.version, b.arch))
	}
	if len(b.tool.Libraries) > 0 {
		linker = append(linker, "-extldflags", "-static")
	}
	command := []string{"build"}
	if b.tool.Tests {
		command = []string{"test", "-c"}
	}
	arguments := append(command, "-trimpath", "-buildvcs=false", "-ldflags", strings.Join(linker, " "))
	compiler := "all=-dwarf=false" // the linker would strip it
	if b.tool.Waits {
		compiler += " -N -l"
	}
	arguments = append(arguments, "-gcflags", compiler)
	if len(b.tool.Tags) > 0 {
		arguments = append(arguments, "-tags", strings.Join(b.tool.Tags, ","))
	}
	arguments = append(arguments, "-o", programs+"/")
	for _, name := range b.tool.Packages {
		arguments = append(arguments, b.importPath(name))
	}
	return arguments
}

func (b builder) importPath(name string) string { return path.Join(b.tool.Module, name) }

// program returns the Go command's name for the program of a package: the last
// part of its path that is not a major version.
func program(importPath string) string {
	prefix, _, ok := module.SplitPathVersion(importPath)
	if !ok {
		prefix = importPath
	}
	return path.Base(prefix)
}

// suffix returns what the Go command adds to the name of a test program.
func (b builder) suffix() string {
	if b.tool.Tests {
		return ".test"
	}
	return ""
}

// verify checks that the program is of the expected package, architecture and,
// if this machine can run it, version.
func (b builder) verify(ctx context.Context, programs, name string) error {
	program := filepath.Join(programs, program(b.importPath(name))+b.suffix())
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return fmt.Errorf("reading the build information of %s: %w", filepath.Base(program), err)
	}
	// The path has no suffix where the package is a command.
	if strings.TrimSuffix(info.Path, b.suffix()) != b.importPath(name) {
		return fmt.Errorf("checking %s: built from %s, must be built from %s", filepath.Base(program), info.Path, b.importPath(name))
	}
	for _, setting := range info.Settings {
		if setting.Key == "GOARCH" && setting.Value != b.arch {
			return fmt.Errorf("checking %s: built for %s, must be built for %s", filepath.Base(program), setting.Value, b.arch)
		}
	}
	if b.arch != runtime.GOARCH {
		return nil
	}
	return b.tool.Probe.check(ctx, program, b.version)
}

func (p probe) check(ctx context.Context, program, version string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, program, p.Arguments...)
	// Without it, packer checks online for updates.
	command.Env = append(os.Environ(), "CHECKPOINT_DISABLE=1")
	output, err := command.CombinedOutput()
	said := strings.TrimSpace(string(output))
	shown := strings.Join(append([]string{filepath.Base(program)}, p.Arguments...), " ")
	if err != nil {
		return fmt.Errorf("running %s: %w%s", shown, err, tail(said))
	}
	if want := filled(p.Want, version, runtime.GOARCH); !strings.Contains(said, want) {
		return fmt.Errorf("checking `%s`: printed %q, must contain %q", shown, said, want)
	}
	return nil
}

// heartbeat writes a line at intervals until the returned function is called. A
// cold build of kubelet prints nothing for minutes.
func (b builder) heartbeat(start time.Time) (stop func()) {
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(30 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				fmt.Fprintf(b.log, "  still building %s %s, %.0f s so far\n", b.tool.Name, b.version, time.Since(start).Seconds())
			}
		}
	}()
	return func() { close(done); <-ended }
}

// compilerVersion returns the output of `go env GOVERSION`, such as "go1.26.0".
func compilerVersion(ctx context.Context) (string, error) {
	command := exec.CommandContext(ctx, "go", "env", "GOVERSION")
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("reading the version of the Go command (is Go on the PATH?): %w", err)
	}
	// A development version has spaces: "devel go1.27-abc Mon …".
	return strings.Join(strings.Fields(string(out)), "-"), nil
}
