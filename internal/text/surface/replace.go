package surface

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Replace replaces a regular file as a whole, or creates a file. After an error the file is
// as it was. A link stays, and its target is replaced. Prepare gets the new file before it
// takes its place, and may be nil: only this user can read the file then.
func Replace(path string, text []byte, prepare func(*os.File) error) error {
	path, err := replaced(path)
	if err != nil {
		return err
	}
	temp, err := beside(path)
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) // fails after the rename
	if _, err = temp.Write(text); err == nil && prepare != nil {
		err = prepare(temp)
	}
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), path)
	}
	return err
}

// MayCreate checks whether Replace can write a file, without changing the file.
func MayCreate(path string) error {
	path, err := replaced(path)
	if err != nil {
		return err
	}
	temp, err := beside(path)
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("the folder %s cannot be written: %w", filepath.Dir(path), failed.Err)
	}
	if err != nil {
		return err
	}
	return errors.Join(temp.Close(), os.Remove(temp.Name()))
}

func beside(path string) (*os.File, error) {
	return os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
}

// replaced resolves links, and refuses what is not a regular file.
func replaced(path string) (string, error) {
	target, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		target, err = path, nil // there is nothing, or a link to nothing
	}
	if err != nil {
		return "", err
	}
	st, err := os.Lstat(target)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return target, nil
	case err != nil:
		return "", err
	case !st.Mode().IsRegular():
		return "", notRegular(path, st.Mode())
	}
	return target, nil
}
