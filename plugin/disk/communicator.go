package disk

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"

	"github.com/eksnode/packer-plugin-eksnode/internal/build/diskbuild"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// communicator runs commands and copies files in the sandbox, as root.
type communicator struct{ open *diskbuild.Opened }

// Start implements packersdk.Communicator.
func (c *communicator) Start(ctx context.Context, cmd *packersdk.RemoteCmd) error {
	go func() {
		code, err := c.open.Run(ctx, cmd.Command, cmd.Stdin, cmd.Stdout, cmd.Stderr)
		if err != nil {
			code = packersdk.CmdDisconnect
		}
		cmd.SetExited(code)
	}()
	return nil
}

// run runs a command, and returns an error with its output if it fails.
func (c *communicator) run(command string, in io.Reader, out io.Writer) error {
	var said bytes.Buffer
	code, err := c.open.Run(context.Background(), command, in, out, &said)
	if err == nil && code != 0 {
		err = fmt.Errorf("exit code %d: %s", code, show.Line(strings.TrimSpace(said.String())))
	}
	return err
}

// Upload implements packersdk.Communicator.
func (c *communicator) Upload(to string, from io.Reader, info *os.FileInfo) error {
	command := "cat >" + show.ShellWord(to)
	if info != nil && (*info).Mode().IsRegular() {
		command += fmt.Sprintf(" && chmod %o %s", (*info).Mode().Perm(), show.ShellWord(to))
	}
	if err := c.run(command, from, nil); err != nil {
		return fmt.Errorf("uploading to %s: %w", to, err)
	}
	return nil
}

// UploadDir implements packersdk.Communicator. A folder without a slash at its end
// becomes a folder in to.
func (c *communicator) UploadDir(to, from string, exclude []string) error {
	if !strings.HasSuffix(from, "/") {
		to = path.Join(to, filepath.Base(from))
	}
	return filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		target := path.Join(to, filepath.ToSlash(relative))
		if slices.Contains(exclude, relative) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := os.Stat(name) // links are followed, as by scp
		if err != nil {
			return err
		}
		if info.IsDir() {
			return c.run("mkdir -p "+show.ShellWord(target), nil, nil)
		}
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		return c.Upload(target, file, &info)
	})
}

// Download implements packersdk.Communicator.
func (c *communicator) Download(from string, to io.Writer) error {
	if err := c.run("cat "+show.ShellWord(from), nil, to); err != nil {
		return fmt.Errorf("downloading %s: %w", from, err)
	}
	return nil
}

// DownloadDir implements packersdk.Communicator. Names come from the image, so they may
// not lead out of to.
func (c *communicator) DownloadDir(from, to string, exclude []string) error {
	var list bytes.Buffer
	if err := c.run("cd "+show.ShellWord(from)+" && find . -type f -print0", nil, &list); err != nil {
		return fmt.Errorf("listing %s: %w", from, err)
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer root.Close()
	for name := range strings.SplitSeq(strings.TrimSuffix(list.String(), "\x00"), "\x00") {
		if name = path.Clean(name); name == "." || slices.Contains(exclude, name) {
			continue
		}
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return err
		}
		file, err := root.Create(name)
		if err != nil {
			return err
		}
		if err := c.Download(path.Join(from, name), file); err != nil {
			file.Close()
			return err
		}
		if err := file.Close(); err != nil {
			return err
		}
	}
	return nil
}
