package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const module = "github.com/eksnode/packer-plugin-eksnode"

// archives builds from the sources at root, in scratch, and leaves the archives
// and their sums in out.
func (r *release) archives(ctx context.Context, root, scratch, out string, list []target) error {
	agents := map[string]string{}
	for _, arch := range nodeArches() {
		program, agent := filepath.Join(scratch, "eksnode-linux-"+arch), filepath.Join(scratch, "agent-linux-"+arch)
		if err := r.compile(ctx, root, target{"linux", arch}, "./cmd/eksnode", program); err != nil {
			return err
		}
		// What travels to machines has no use for the desk's commands.
		if err := r.compile(ctx, root, target{"linux", arch}, "./cmd/eksnode", agent, "-tags", "agent"); err != nil {
			return err
		}
		packed := filepath.Join(scratch, "eksnode-linux-"+arch+".gz")
		if err := compress(agent, packed); err != nil {
			return fmt.Errorf("compressing the agent for linux/%s: %w", arch, err)
		}
		agents[filepath.Join(root, "plugin", "embedded", "agents", filepath.Base(packed))] = packed
		if err := r.pack(filepath.Join(out, r.commandArchive(arch)), commandName, program); err != nil {
			return err
		}
	}
	overlay := filepath.Join(scratch, "overlay.json")
	if err := writeOverlay(overlay, agents); err != nil {
		return err
	}
	for _, t := range list {
		program := filepath.Join(scratch, r.pluginProgram(t))
		if err := r.compile(ctx, root, t, "./plugin", program, "-overlay", overlay); err != nil {
			return err
		}
		if err := carries(program, agents); err != nil {
			return err
		}
		if err := r.pack(filepath.Join(out, r.pluginArchive(t)), r.pluginProgram(t), program); err != nil {
			return err
		}
	}
	if err := writeSums(out, r.sumsName(pluginName), r.pluginArchives(list)); err != nil {
		return err
	}
	return writeSums(out, r.sumsName(commandName), r.commandArchives())
}

// compile builds one program as every release is built: static, without this
// machine's paths, and with the version but without the mark of development.
func (r *release) compile(ctx context.Context, root string, t target, pkg, program string, flags ...string) error {
	start := time.Now()
	linker := fmt.Sprintf("-s -w -X %[1]s/internal/version.Version=%[2]s -X %[1]s/internal/version.VersionPrerelease=", module, r.version)
	args := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags", linker, "-o", program}
	cmd := exec.CommandContext(ctx, "go", append(append(args, flags...), pkg)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+t.os, "GOARCH="+t.arch, "GOFLAGS=-mod=readonly", "GOWORK=off")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building %s for %s: %w\n%s", pkg, t, err, said.String())
	}
	info, err := os.Stat(program)
	if err != nil {
		return fmt.Errorf("looking for what was built: %w", err)
	}
	r.say("  %-48s %6.1f MB  %3.0f s", filepath.Base(program), float64(info.Size())/1e6, time.Since(start).Seconds())
	return nil
}

// compress packs an agent as the plugin carries it. The header is empty, so
// that the same program gives the same bytes.
func compress(name, packed string) error {
	in, err := os.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := io.Copy(w, in); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(packed, out.Bytes(), 0o644)
}

// writeOverlay has the Go command see these agents in the plugin's folder
// without anything being written there, where `make build` keeps its own.
func writeOverlay(name string, agents map[string]string) error {
	text, err := json.Marshal(map[string]any{"Replace": agents})
	if err != nil {
		return fmt.Errorf("writing the overlay: %w", err)
	}
	if err := os.WriteFile(name, text, 0o644); err != nil {
		return fmt.Errorf("writing the overlay: %w", err)
	}
	return nil
}

// carries says whether a plugin holds its agents, byte for byte.
func carries(program string, agents map[string]string) error {
	text, err := os.ReadFile(program)
	if err != nil {
		return fmt.Errorf("reading the plugin: %w", err)
	}
	for name, agent := range agents {
		want, err := os.ReadFile(agent)
		if err != nil {
			return fmt.Errorf("reading the agent: %w", err)
		}
		if !bytes.Contains(text, want) {
			return fmt.Errorf("looking into %s: it does not hold %s", filepath.Base(program), filepath.Base(name))
		}
	}
	return nil
}

// output runs a program and gives what it printed, without the last line break.
func output(ctx context.Context, folder, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = folder
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("running %s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(said.String()))
	}
	return strings.TrimSpace(string(out)), nil
}
