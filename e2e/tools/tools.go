package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
)

// Packer returns the path of a packer program of that version for this machine:
// the one on the search path if its version is right, or the result of Build.
// With an empty version, any version on the search path is right that is at
// least the oldest in the table. Progress goes to log, line by line.
func Packer(ctx context.Context, version string, log io.Writer) (string, error) {
	if program, found := onPath(ctx, version); program != "" {
		fmt.Fprintf(log, "using packer %s on the search path: %s\n", found, program)
		return program, nil
	}
	return Build(ctx, NamePacker, version, runtime.GOARCH, log)
}

// Build returns the path of the tool. If the cache below os.UserCacheDir()
// lacks it, Build downloads the publisher's release. If the publisher's site
// does not respond or has no release, Build builds the tool from its module. An
// empty version means the newest in the table; arch is "amd64" or "arm64".
func Build(ctx context.Context, name, version, arch string, log io.Writer) (string, error) {
	tool, version, err := Find(name, version)
	if err != nil {
		return "", err
	}
	if arch != "amd64" && arch != "arm64" {
		return "", fmt.Errorf("building %s %s: unknown architecture %q; must be amd64 or arm64", name, version, arch)
	}
	if !tool.Node && arch != runtime.GOARCH {
		return "", fmt.Errorf("building %s %s for %s: the tool runs on this machine, which is %s", name, version, arch, runtime.GOARCH)
	}
	cache, err := base.Cache()
	if err != nil {
		return "", err
	}
	builder := builder{tool: tool, version: version, arch: arch, log: log}
	path, err := builder.get(ctx, filepath.Join(cache, "tools"))
	if err != nil {
		return "", fmt.Errorf("getting %s %s for %s: %w", name, version, arch, err)
	}
	return path, nil
}

// onPath returns the packer of the search path if its version is right: the
// given version, or any version since the oldest of the table if version is
// empty. Another program of that name, such as cracklib's, is ignored.
func onPath(ctx context.Context, version string) (program, found string) {
	program, err := exec.LookPath("packer")
	if err != nil {
		return "", ""
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	command := exec.CommandContext(ctx, program, "--version")
	command.Env = append(os.Environ(), "CHECKPOINT_DISABLE=1")
	command.WaitDelay = time.Second
	output, err := command.Output()
	first, _, _ := strings.Cut(strings.TrimSpace(string(output)), "\n")
	found = strings.TrimPrefix(first, "Packer v")
	if err != nil || !semver.IsValid("v"+found) {
		return "", ""
	}
	packer, _, err := Find(NamePacker, "")
	if err != nil {
		return "", ""
	}
	oldest := slices.MinFunc(packer.Versions, func(a, b string) int { return semver.Compare("v"+a, "v"+b) })
	if fits := version == found || version == "" && semver.Compare("v"+found, "v"+oldest) >= 0; !fits {
		return "", ""
	}
	return program, found
}

// source is a module in the module cache.
type source struct {
	Path    string
	Version string // with its "v"
	Dir     string // read-only
	GoMod   string
	Info    string // a JSON file with the release's time
	Error   string
}

// fetch downloads a module through the Go command, which verifies it with the
// checksum database.
func fetch(ctx context.Context, path, version string) (source, error) {
	command := exec.CommandContext(ctx, "go", "mod", "download", "-json", path+"@v"+version)
	// The Go command runs outside any module, so that this module's replace lines
	// do not apply.
	command.Dir = os.TempDir()
	command.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	var got source
	if decodeErr := json.Unmarshal(out, &got); decodeErr != nil && err == nil {
		err = fmt.Errorf("reading the output of the Go command: %w", decodeErr)
	}
	// The JSON has the reason of a failure; the Go command itself reports only
	// "exit status 1".
	if got.Error != "" {
		err = errors.New(got.Error)
	}
	if err != nil {
		return source{}, fmt.Errorf("downloading the module %s@v%s (is the Go module proxy reachable? see `go env GOPROXY`): %w%s",
			path, version, err, tail(stderr.String()))
	}
	return got, nil
}

// Module returns the go.mod of a module that requires another and selects the same
// versions of all others.
func Module(ctx context.Context, path, version string) ([]byte, error) {
	upstream, err := fetch(ctx, path, version)
	if err != nil {
		return nil, err
	}
	return upstream.wrapper(version)
}

func (s source) wrapper(version string) ([]byte, error) {
	original, err := os.ReadFile(s.GoMod)
	if err != nil {
		return nil, fmt.Errorf("reading upstream's go.mod: %w", err)
	}
	return wrapper(s.GoMod, original, version)
}

func (s source) released() (time.Time, error) {
	data, err := os.ReadFile(s.Info)
	if err != nil {
		return time.Time{}, fmt.Errorf("reading the module's release time: %w", err)
	}
	var info struct{ Time time.Time }
	if err := json.Unmarshal(data, &info); err != nil {
		return time.Time{}, fmt.Errorf("reading the module's release time from %s: %w", s.Info, err)
	}
	return info.Time.UTC().Truncate(time.Second), nil
}

// wrapper returns the go.mod of a module that only requires upstream's, so that
// `go build` of upstream's commands selects the same versions as upstream. `go
// install module@version` would do the same, but refuses every module with
// replace lines, and most of these modules have them.
//
// Replace lines apply to the main module only, so the wrapper repeats them.
// Replace lines that point into upstream's own tree (Kubernetes' staging
// folders) need a substitute, because the module's archive lacks those folders.
// Their code is published as k8s.io/NAME v0.MINOR.PATCH.
func wrapper(upstreamFile string, upstream []byte, version string) ([]byte, error) {
	parsed, err := modfile.Parse(upstreamFile, upstream, nil)
	if err != nil {
		return nil, fmt.Errorf("reading upstream's go.mod: %w", err)
	}
	var out modfile.File
	steps := []error{
		out.AddModuleStmt("eksnode.invalid/build"),
		// The language version and the godebug lines set run-time defaults of the
		// program.
		out.AddGoStmt(parsed.Go.Version),
		out.AddRequire(parsed.Module.Mod.Path, "v"+version),
	}
	for _, setting := range parsed.Godebug {
		steps = append(steps, out.AddGodebug(setting.Key, setting.Value))
	}
	for _, replace := range parsed.Replace {
		target := replace.New
		if modfile.IsDirectoryPath(target.Path) {
			if !requires(parsed, replace.Old.Path) {
				continue // the line only reserves a name; no program is built from it
			}
			target, err = published(replace.Old, version)
			steps = append(steps, err)
		}
		steps = append(steps, out.AddReplace(replace.Old.Path, replace.Old.Version, target.Path, target.Version))
	}
	if err := errors.Join(steps...); err != nil {
		return nil, fmt.Errorf("writing a go.mod around %s: %w", parsed.Module.Mod.Path, err)
	}
	out.Cleanup()
	return out.Format()
}

func requires(file *modfile.File, path string) bool {
	return slices.ContainsFunc(file.Require, func(r *modfile.Require) bool { return r.Mod.Path == path })
}

// published returns the released module for one of Kubernetes' staging folders, for one
// of etcd's modules, which are released together under one version, or for SOCI's.
func published(staged module.Version, version string) (module.Version, error) {
	if staged.Path == sociModule {
		return module.Version{Path: staged.Path, Version: "v" + sociVersion}, nil
	}
	if strings.HasPrefix(staged.Path, "go.etcd.io/etcd/") {
		return module.Version{Path: staged.Path, Version: "v" + version}, nil
	}
	rest, isOne := strings.CutPrefix(version, "1.")
	if !isOne || !strings.HasPrefix(staged.Path, "k8s.io/") {
		return module.Version{}, fmt.Errorf("replacing %s: the line points into upstream's tree, and no published module is known for the folder", staged.Path)
	}
	return module.Version{Path: staged.Path, Version: "v0." + rest}, nil
}

// tail returns the last lines of a command's output, led by a line break, for
// the end of an error.
func tail(output string) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	if len(lines) == 1 && lines[0] == "" {
		return ""
	}
	const most = 20
	if len(lines) > most {
		lines = lines[len(lines)-most:]
	}
	return "\n" + strings.Join(lines, "\n")
}
