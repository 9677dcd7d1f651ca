package binsize

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// agentTag is what the agent is built with.
const agentTag = "agent"

// Size is a program's, in bytes.
type Size struct {
	Stripped   int64 `json:"stripped"`
	Compressed int64 `json:"compressed"` // gzip, best compression
}

func (s Size) less(other Size) Size {
	return Size{s.Stripped - other.Stripped, s.Compressed - other.Compressed}
}

// Build builds a Go program as the project builds its agent: static, without what
// only a person's desk needs, and without paths of the machine; stripped leaves
// out symbols as releases do. The working
// folder decides the module and so the versions of everything.
func Build(ctx context.Context, folder, source, program string, stripped bool) error {
	args := []string{"build", "-trimpath", "-tags", agentTag}
	if stripped {
		args = append(args, "-ldflags", "-s -w")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "-o", program, source)...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w: %s", source, err, out)
	}
	return nil
}

// Measure is the size of a program in a file.
func Measure(program string) (Size, error) {
	data, err := os.ReadFile(program)
	if err != nil {
		return Size{}, fmt.Errorf("measuring a program: %w", err)
	}
	packed := new(bytes.Buffer)
	w, err := gzip.NewWriterLevel(packed, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return Size{}, fmt.Errorf("compressing a program: %w", err)
	}
	return Size{int64(len(data)), int64(packed.Len())}, nil
}

// Packed is the size of a program that is compressed already.
func Packed(packed []byte) (Size, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return Size{}, fmt.Errorf("unpacking a program: %w", err)
	}
	n, err := io.Copy(io.Discard, r)
	if err != nil {
		return Size{}, fmt.Errorf("unpacking a program: %w", err)
	}
	return Size{n, int64(len(packed))}, nil
}
