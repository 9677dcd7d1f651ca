// Package surface names eksnode's options in errors. HCL and JSON name an option by
// its field, kubernetes_version; the command by its flag, --kubernetes-version. An
// error from Errorf has both forms, so other packages need not know which surface
// the person uses.
package surface

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Name is an option's field in HCL, such as kubernetes_version. It may have a key,
// versions["kubelet"], and several names may be joined by " and ".
type Name string

// Key is one entry of an option that is a map.
func (n Name) Key(key string) Name { return Name(fmt.Sprintf("%s[%q]", n, key)) }

// Flag is the option as a flag.
func (n Name) Flag() string {
	parts := strings.Split(string(n), " and ")
	for i, part := range parts {
		name, key, hasKey := strings.Cut(part, "[")
		if parts[i] = "--" + strings.ReplaceAll(name, "_", "-"); hasKey {
			parts[i] += " " + strings.Trim(key, `"]`) + "=…"
		}
	}
	return strings.Join(parts, " and ")
}

// Is is the option with a value, in the form of HCL or of a shell.
func (n Name) Is(value string) Words {
	return Words{fmt.Sprintf("%s = %q", n, value), n.Flag() + " " + value}
}

// Entry is one entry of an option that is a map, with its value.
func (n Name) Entry(key, value string) Words {
	shown := strconv.Quote(value)
	if shown == `"`+value+`"` && value != "" && !strings.Contains(value, " ") {
		shown = value
	}
	return Words{fmt.Sprintf("%s = %q", n.Key(key), value), fmt.Sprintf("%s %s=%s", n.Flag(), key, shown)}
}

// On is a boolean option that is turned on.
func (n Name) On() Words { return Words{string(n) + " = true", n.Flag()} }

// Words are a part of an error that differs between the surfaces.
type Words struct{ HCL, Flags string }

// String implements fmt.Stringer.
func (w Words) String() string { return w.HCL }

// Field is "field" in HCL and "flag" on a command line.
func Field() Words { return Words{"field", "flag"} }

// failure is an error with a text for each surface.
type failure struct {
	error        // in HCL
	flags string // on a command line
}

// Unwrap lets errors.Is and errors.As examine the error.
func (f *failure) Unwrap() error { return f.error }

// braced is an option in a format.
var braced = regexp.MustCompile(`\{([a-z][a-z0-9_]*)\}`)

// Errorf is fmt.Errorf for errors about options. Options in braces, such as {images}, and
// arguments of the types Name and Words differ between the surfaces.
func Errorf(format string, args ...any) error {
	inFlags := braced.ReplaceAllStringFunc(format, func(s string) string { return Name(strings.Trim(s, "{}")).Flag() })
	typed := slices.Clone(args)
	for i, arg := range typed {
		switch arg := arg.(type) {
		case Name:
			typed[i] = arg.Flag()
		case Words:
			typed[i] = arg.Flags
		case error:
			typed[i] = errors.New(InFlags(arg))
		}
	}
	return &failure{fmt.Errorf(braced.ReplaceAllString(format, "$1"), args...), fmt.Errorf(inFlags, typed...).Error()}
}

// Faults collects the faults of options.
type Faults struct{ errs []error }

// When adds an error in the form of Errorf, if the condition holds.
func (f *Faults) When(condition bool, format string, args ...any) {
	if condition {
		f.Add(Errorf(format, args...))
	}
}

// Check adds an error about an option, unless the error is nil.
func (f *Faults) Check(option Name, err error) { f.When(err != nil, "%s: %w", option, err) }

// Add adds an error, unless the error is nil.
func (f *Faults) Add(err error) { f.errs = append(f.errs, err) }

// Err returns the faults, joined.
func (f *Faults) Err() error { return errors.Join(f.errs...) }

// InFlags is an error's text for a person who uses flags.
func InFlags(err error) string {
	if err == nil {
		return ""
	}
	found := failures(err)
	// Longer texts come last, because a text may be the beginning of another.
	slices.SortStableFunc(found, func(a, b *failure) int { return cmp.Compare(len(b.Error()), len(a.Error())) })
	var pairs []string
	for _, f := range found {
		pairs = append(pairs, f.Error(), f.flags)
	}
	return strings.NewReplacer(pairs...).Replace(err.Error())
}

type byFlags struct{}

// WithFlags returns a context in which Named names options as flags, or as fields of HCL.
func WithFlags(ctx context.Context, flags bool) context.Context {
	return context.WithValue(ctx, byFlags{}, flags)
}

// UsesFlags reports whether Named names options as flags.
func UsesFlags(ctx context.Context) bool { return ctx.Value(byFlags{}) == true }

// Named is an error whose text names options as the context says.
func Named(ctx context.Context, err error) error {
	if err == nil || !UsesFlags(ctx) {
		return err
	}
	return &named{err, InFlags(err)}
}

type named struct {
	error
	text string
}

func (n *named) Error() string { return n.text }

// Unwrap lets errors.Is and errors.As examine the error.
func (n *named) Unwrap() error { return n.error }

func failures(err error) []*failure {
	var found []*failure
	switch err := err.(type) {
	case *failure:
		found = append(found, err)
	case interface{ Unwrap() []error }:
		for _, part := range err.Unwrap() {
			found = append(found, failures(part)...)
		}
	case interface{ Unwrap() error }:
		found = failures(err.Unwrap())
	}
	return found
}

// Open opens a file that a person named, for reading, and never waits for another
// process: opening a FIFO would. The file is a regular file or a folder, or what the
// name says is open already, such as /dev/stdin and a shell's <(command).
func Open(name string) (*os.File, error) {
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	st, err := file.Stat()
	if err == nil && !st.Mode().IsRegular() && !st.IsDir() && !isOpen(name) {
		err = notRegular(name, st.Mode())
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// fileMost is the size of the largest file that ReadAll reads, in bytes.
const fileMost = 64 << 20

// ReadFile reads a whole file that a person named, as Open opens it.
func ReadFile(name string) ([]byte, error) {
	file, err := Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return ReadAll(name, file)
}

// ReadAll reads a whole file or stream, which name names in errors.
func ReadAll(name string, from io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(from, fileMost+1))
	if err == nil && len(text) > fileMost {
		err = fmt.Errorf("%s is larger than %d MiB; name a smaller file", name, fileMost>>20)
	}
	return text, err
}

func isOpen(name string) bool {
	return name == "/dev/stdin" || strings.HasPrefix(name, "/dev/fd/") || strings.HasPrefix(name, "/proc/self/fd/")
}

func notRegular(name string, mode fs.FileMode) error {
	kind := "a device"
	switch {
	case mode.IsDir():
		kind = "a folder"
	case mode&fs.ModeSymlink != 0:
		kind = "a link to nothing"
	case mode&fs.ModeNamedPipe != 0:
		kind = "a FIFO"
	case mode&fs.ModeSocket != 0:
		kind = "a socket"
	}
	return fmt.Errorf("%s is %s, not a regular file; name a regular file", name, kind)
}

// WithRequests adds the IDs of the requests that AWS refused to the first line of an error's
// text. AWS support needs them.
func WithRequests(text string, err error) string {
	ids := requestsIn(err)
	slices.Sort(ids)
	if ids = slices.Compact(ids); len(ids) == 0 {
		return text
	}
	first, rest, more := strings.Cut(text, "\n")
	if more {
		rest = "\n" + rest
	}
	return first + " (AWS request ID: " + strings.Join(ids, ", ") + ")" + rest
}

func requestsIn(err error) (ids []string) {
	if e, ok := err.(interface{ RequestID() string }); ok && e.RequestID() != "" {
		return []string{e.RequestID()}
	}
	switch e := err.(type) {
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			ids = append(ids, requestsIn(one)...)
		}
	case interface{ Unwrap() error }:
		return requestsIn(e.Unwrap())
	}
	return ids
}
