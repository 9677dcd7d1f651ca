package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

// source is a module as the Go command put it into the module cache.
type source struct {
	Path    string
	Version string // with its "v"
	Dir     string // read-only
	GoMod   string
	Info    string // a JSON file with the release's time
	Error   string
}

// fetch downloads a module through the Go command, which checks it against
// the checksum database.
func fetch(ctx context.Context, path, version string) (source, error) {
	command := exec.CommandContext(ctx, "go", "mod", "download", "-json", path+"@v"+version)
	// Outside any module, so that the replace lines of ours do not apply.
	command.Dir = os.TempDir()
	command.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	var got source
	if decodeErr := json.Unmarshal(out, &got); decodeErr != nil && err == nil {
		err = fmt.Errorf("reading the Go command's answer: %w", decodeErr)
	}
	// The Go command puts the reason into the JSON and only "exit status 1" beside it.
	if got.Error != "" {
		err = errors.New(got.Error)
	}
	if err != nil {
		return source{}, fmt.Errorf("downloading the module %s@v%s (is the Go module proxy reachable? see `go env GOPROXY`): %w%s",
			path, version, err, tail(stderr.String()))
	}
	return got, nil
}

// released answers when the module's version was made.
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

// wrapper answers the go.mod of a module whose only business is to require
// upstream's, so that `go build` of upstream's commands selects the versions
// upstream selected. `go install module@version` would do, but refuses every
// module with replace lines, which most of these have.
//
// Replace lines hold for the main module only, so they are repeated. Those
// that point into upstream's own tree (Kubernetes' staging folders) are not in
// the module's archive; their code is published as k8s.io/NAME v0.MINOR.PATCH.
func wrapper(upstreamFile string, upstream []byte, version string) ([]byte, error) {
	parsed, err := modfile.Parse(upstreamFile, upstream, nil)
	if err != nil {
		return nil, fmt.Errorf("reading upstream's go.mod: %w", err)
	}
	var out modfile.File
	steps := []error{
		out.AddModuleStmt("eksnode.invalid/build"),
		// The language version and the godebug lines set run-time defaults of
		// the program that is built.
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
				continue // it guards against a name, and nothing is built from it
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

// published answers the released module behind one of Kubernetes' staging
// folders, or behind one of etcd's modules, which are released together under
// one version.
func published(staged module.Version, version string) (module.Version, error) {
	if strings.HasPrefix(staged.Path, "go.etcd.io/etcd/") {
		return module.Version{Path: staged.Path, Version: "v" + version}, nil
	}
	rest, isOne := strings.CutPrefix(version, "1.")
	if !isOne || !strings.HasPrefix(staged.Path, "k8s.io/") {
		return module.Version{}, fmt.Errorf("replacing %s: it points into upstream's tree, and no published module is known for it", staged.Path)
	}
	return module.Version{Path: staged.Path, Version: "v0." + rest}, nil
}

// tail answers the last lines of a command's output, led by a line break, for
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
