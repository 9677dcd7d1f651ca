package nodeconfig

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/spf13/afero"
)

// UserDataSource is the default source: the instance's user data.
const UserDataSource = "imds://user-data"

// Reader reads the sources of NodeConfigs.
type Reader struct {
	// Files is the machine's file system.
	Files afero.Fs
	// Folder is the folder of relative paths; if empty, relative paths are errors.
	Folder string
	// UserData returns the instance's user data, or nil if there is none.
	UserData func(context.Context) ([]byte, error)
}

// extensions lists the extensions of the files that are read from a folder.
var extensions = []string{".yaml", ".yml", ".json"}

// Load reads the sources in order and merges them. A source is UserDataSource, or
// file:// with an absolute path of a file or a folder. Of a folder, the files with the
// extensions .yaml, .yml and .json are read in the order of their names. Load fails
// with ErrNone if no source has a NodeConfig. User data of other programs counts as
// user data without a NodeConfig. A file must contain a NodeConfig.
func (r Reader) Load(ctx context.Context, sources []string) (c *NodeConfig, warnings []string, err error) {
	var none []error
	for _, source := range sources {
		texts, err := r.read(ctx, source)
		if err != nil {
			return nil, nil, err
		}
		for _, t := range texts {
			next, w, err := Parse(t.content)
			if errors.Is(err, ErrNone) {
				none = append(none, fmt.Errorf("%s: %w", t.name, err))
				continue
			}
			if err != nil && source == UserDataSource && isForeign(t.content) {
				none = append(none, fmt.Errorf("%s: %w: %w", t.name, ErrNone, err))
				warnings = append(warnings, fmt.Sprintf("%s: no NodeConfig in it: %v", t.name, err))
				continue
			}
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", t.name, err)
			}
			next.from(t.name)
			for _, line := range w {
				warnings = append(warnings, t.name+": "+line)
			}
			if c == nil {
				c = next
				continue
			}
			for _, line := range c.Contradictions(next) {
				warnings = append(warnings, t.name+": "+line)
			}
			if err := c.Merge(next); err != nil {
				return nil, nil, fmt.Errorf("%s: %w", t.name, err)
			}
		}
		if len(texts) == 0 {
			none = append(none, fmt.Errorf("%s: %w", source, ErrNone))
		}
	}
	if c == nil {
		return nil, nil, errors.Join(none...)
	}
	return c, warnings, nil
}

// named is a text with its source.
type named struct {
	name    string
	content []byte
}

// CheckSource returns an error for a text that can be no source.
func CheckSource(source string) error {
	if source == UserDataSource {
		return nil
	}
	_, err := parseSource(source)
	return err
}

func parseSource(source string) (*url.URL, error) {
	u, err := url.Parse(source)
	if err != nil || u.Scheme != "file" || u.Host+u.Path == "" {
		return nil, fmt.Errorf("it must be %s or file:///PATH", UserDataSource)
	}
	return u, nil
}

func (r Reader) read(ctx context.Context, source string) ([]named, error) {
	if source == UserDataSource {
		data, err := r.UserData(ctx)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", source, err)
		}
		return []named{{source, data}}, nil
	}
	u, err := parseSource(source)
	if err != nil {
		return nil, fmt.Errorf("reading the source %q: %w", source, err)
	}
	// In file://config.yaml the path is in place of the host; upstream accepts this.
	name := u.Host + u.Path
	if u.Host != "" {
		if r.Folder == "" {
			return nil, fmt.Errorf("reading the source %s: the path must be absolute, as in file:///etc/eks/%s",
				source, path.Base(name))
		}
		name = path.Join(r.Folder, u.Host) + u.Path // with the slash of a folder
	}
	return r.files(name)
}

// files reads a file or the files of a folder. A missing folder has no files; the path
// of a folder ends in a slash.
func (r Reader) files(name string) ([]named, error) {
	st, err := r.Files.Stat(name)
	if errors.Is(err, fs.ErrNotExist) && strings.HasSuffix(name, "/") {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the source: %w", err)
	}
	names := []string{name}
	if st.IsDir() {
		if names, err = r.folder(name); err != nil {
			return nil, err
		}
	}
	var texts []named
	for _, n := range names {
		data, err := r.file(n)
		if err != nil {
			return nil, fmt.Errorf("reading the source: %w", err)
		}
		texts = append(texts, named{n, data})
	}
	return texts, nil
}

// file reads a file of at most maxText bytes.
func (r Reader) file(name string) ([]byte, error) {
	in, err := r.Files.Open(name)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	var text []byte
	st, err := in.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = errors.New("not a regular file; write the NodeConfig into a file")
	}
	if err == nil {
		text, err = readAll(in, maxText)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return text, nil
}

func (r Reader) folder(name string) ([]string, error) {
	entries, err := afero.ReadDir(r.Files, name)
	if err != nil {
		return nil, fmt.Errorf("reading the source: %w", err)
	}
	var names []string
	for _, e := range entries {
		if e.Mode()&fs.ModeDir == 0 && slices.Contains(extensions, strings.ToLower(path.Ext(e.Name()))) {
			names = append(names, path.Join(name, e.Name()))
		}
	}
	slices.Sort(names)
	return names, nil
}
