package tools

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
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

// get returns the path of the tool: from the cache, downloaded or built.
func (b builder) get(ctx context.Context, where cache) (string, error) {
	compiler, err := compilerVersion(ctx)
	if err != nil {
		return "", err
	}
	output, key := b.tool.output(b.version, b.arch), b.key(compiler)
	if there, err := exists(filepath.Join(where.folder, key)); there || err != nil || b.tool.release.url == "" {
		return b.build(ctx, where, key, compiler)
	}
	released := fmt.Sprintf("%s_%s_linux_%s_released", b.tool.Name, b.version, b.arch)
	folder, err := where.entry(ctx, released, b.log, func(folder string) error { return b.download(ctx, folder) })
	var away *awayError
	if errors.As(err, &away) {
		fmt.Fprintf(b.log, "building %s %s, because the download failed: %v\n", b.tool.Name, b.version, away.error)
		return b.build(ctx, where, key, compiler)
	}
	return filepath.Join(folder, output), err
}

// build returns the path of the tool that was built from its module.
func (b builder) build(ctx context.Context, where cache, key, compiler string) (string, error) {
	output := b.tool.output(b.version, b.arch)
	folder, err := where.entry(ctx, key, b.log, func(folder string) error {
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
	if err != nil {
		return "", err
	}
	return filepath.Join(folder, output), nil
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
	upstream, err := fetch(ctx, b.tool.module, b.version)
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
	for _, name := range b.tool.packages {
		if err := b.verify(ctx, programs, name); err != nil {
			return err
		}
	}
	final := filepath.Join(folder, b.tool.output(b.version, b.arch))
	if b.tool.archive != nil {
		return b.tool.archive.pack(programs, upstream, final)
	}
	if err := os.Rename(filepath.Join(programs, program(b.importPath(b.tool.packages[0]))+b.suffix()), final); err != nil {
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
	if len(b.tool.libraries) > 0 {
		if err := base.Install(ctx, b.log, b.tool.libraries...); err != nil {
			return err
		}
		cgo = "1"
	}
	command.Env = append(os.Environ(), "CGO_ENABLED="+cgo, "GOOS=linux", "GOARCH="+b.arch, "GOFLAGS=-mod=mod", "GOWORK=off")
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
	for _, variable := range b.tool.variables {
		linker = append(linker, "-X", variable.name+"="+variable.value(b.version))
	}
	if len(b.tool.libraries) > 0 {
		linker = append(linker, "-extldflags", "-static")
	}
	command := []string{"build"}
	if b.tool.tests {
		command = []string{"test", "-c"}
	}
	arguments := append(command, "-trimpath", "-buildvcs=false", "-ldflags", strings.Join(linker, " "))
	if len(b.tool.tags) > 0 {
		arguments = append(arguments, "-tags", strings.Join(b.tool.tags, ","))
	}
	arguments = append(arguments, "-o", programs+"/")
	for _, name := range b.tool.packages {
		arguments = append(arguments, b.importPath(name))
	}
	return arguments
}

func (b builder) importPath(name string) string { return path.Join(b.tool.module, name) }

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
	if b.tool.tests {
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
	return b.tool.probe.check(ctx, program, b.version)
}

func (p probe) check(ctx context.Context, program, version string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, program, p.arguments...)
	// Without it, packer checks online for updates.
	command.Env = append(os.Environ(), "CHECKPOINT_DISABLE=1")
	output, err := command.CombinedOutput()
	said := strings.TrimSpace(string(output))
	shown := strings.Join(append([]string{filepath.Base(program)}, p.arguments...), " ")
	if err != nil {
		return fmt.Errorf("running %s: %w%s", shown, err, tail(said))
	}
	if want := p.want(version); !strings.Contains(said, want) {
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

// cache is a folder of complete folders. An entry is made in a temporary folder
// and renamed, so that it exists completely or not at all.
type cache struct {
	folder string
}

// entry returns the folder of the given key. If there is none, it calls fill
// with an empty folder, and keeps the folder under the key when fill succeeds.
// If several processes need the same key, one fills it. The others wait, and
// write to log that they do.
func (c cache) entry(ctx context.Context, key string, log io.Writer, fill func(folder string) error) (string, error) {
	final := filepath.Join(c.folder, key)
	if there, err := exists(final); there || err != nil {
		return final, err
	}
	if err := os.MkdirAll(c.folder, 0o755); err != nil {
		return "", fmt.Errorf("making the cache folder: %w", err)
	}
	unlock, err := lock(ctx, final+".lock", log)
	if err != nil {
		return "", err
	}
	defer unlock()
	// Another process may have filled the folder while this one waited.
	if there, err := exists(final); there || err != nil {
		return final, err
	}
	if err := c.sweep(key); err != nil {
		return "", err
	}
	temporary, err := os.MkdirTemp(c.folder, unfinished(key))
	if err != nil {
		return "", fmt.Errorf("making a temporary folder: %w", err)
	}
	defer os.RemoveAll(temporary)
	if err := fill(temporary); err != nil {
		return "", err
	}
	if err := os.Chmod(temporary, 0o755); err != nil {
		return "", fmt.Errorf("opening the finished folder to readers: %w", err)
	}
	if err := os.Rename(temporary, final); err != nil {
		return "", fmt.Errorf("keeping the finished folder: %w", err)
	}
	return final, nil
}

// sweep removes the partial folders of a killed process for key. The caller
// holds the key's lock, so no other process uses them.
func (c cache) sweep(key string) error {
	left, err := filepath.Glob(filepath.Join(c.folder, unfinished(key)))
	if err != nil {
		return fmt.Errorf("looking for unfinished folders: %w", err)
	}
	for _, folder := range left {
		if err := os.RemoveAll(folder); err != nil {
			return fmt.Errorf("removing an unfinished folder: %w", err)
		}
	}
	return nil
}

// unfinished is the pattern, for both os.MkdirTemp and filepath.Glob, of the
// temporary folders for key.
func unfinished(key string) string { return "." + key + ".*" }

func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// lock takes an exclusive lock on the file at path, which it makes, and returns
// a function that releases the lock. The kernel releases it when the process
// dies, so an existing lock file has no meaning.
func lock(ctx context.Context, path string, log io.Writer) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	retry := time.NewTicker(100 * time.Millisecond)
	defer retry.Stop()
	for waited := false; ; waited = true {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			file.Close()
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		if !waited {
			fmt.Fprintf(log, "waiting for another process that holds %s\n", path)
		}
		select {
		case <-ctx.Done():
			file.Close()
			return nil, fmt.Errorf("waiting for the lock %s: %w", path, context.Cause(ctx))
		case <-retry.C:
		}
	}
}
