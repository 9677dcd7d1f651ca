package awsapi

import (
	"context"
	"encoding/xml"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/aws/smithy-go"
)

// Patience is how long AWS may take until every call sees a change
// (https://docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html).
const Patience = 5 * time.Minute

// The longest pause and Patience, in pauses of Options.Settle: 30 seconds and five
// minutes.
const (
	pauseMost    = 15
	patienceMost = 150
)

// ForNew calls AWS for what this run has made: NotFound means not yet, and the call is
// repeated for up to Patience.
func (a *AWS) ForNew() *AWS {
	b := *a
	b.patience = patienceMost * a.settle
	return &b
}

// settled repeats a call for a resource that AWS does not find yet.
func (a *AWS) settled(ctx context.Context, call func() error) error {
	return a.repeated(ctx, a.patience, IsNotFound, call)
}

// repeated repeats a call after errors that pass, with growing pauses.
func (a *AWS) repeated(ctx context.Context, most time.Duration, passes func(error) bool, call func() error) error {
	pause := a.settle
	for waited := time.Duration(0); ; waited, pause = waited+pause, min(2*pause, pauseMost*a.settle) {
		err := call()
		if err == nil || !passes(err) || waited >= most {
			return err
		}
		if stopped := sleep(ctx, pause); stopped != nil {
			return errors.Join(err, stopped)
		}
	}
}

// Settle waits until the next look at a state.
func (a *AWS) Settle(ctx context.Context) error { return a.pause(ctx) }

// pause waits until the next look at a state.
func (a *AWS) pause(ctx context.Context) error { return sleep(ctx, a.settle) }

func sleep(ctx context.Context, pause time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(pause):
		return nil
	}
}

// AwaitGone waits until EC2 no longer shows a deregistered image.
func (a *AWS) AwaitGone(ctx context.Context, id string) error {
	still := errors.New("deregistering the image " + id + ": EC2 still shows the image")
	return a.repeated(ctx, patienceMost*a.settle, func(err error) bool { return err == still }, func() error {
		if i, err := a.Present(ctx, id); err != nil || i.ID == "" {
			return err
		}
		return still
	})
}

// notYet are the codes of EC2 for a new image that waits for what this run has changed:
// the name of an image that was deregistered, the snapshot, or the image to copy.
var notYet = []string{"InvalidAMIName.Duplicate", "InvalidSnapshot.NotFound", "IncorrectState", "InvalidAMIID.NotFound", "InvalidAMIID.Unavailable"}

// create makes an image with a name, and waits until it is available. A call whose
// answer was lost has made the image already: ours says whether the image of that name
// is the one. A name may be taken for Patience, and the image of a lost answer then unseen
// for Patience.
func (a *AWS) create(ctx context.Context, name string, ours func(Image) bool, call func() (id *string, err error)) (Image, error) {
	var made *string
	err := a.repeated(ctx, 2*patienceMost*a.settle, func(err error) bool { return hasCode(err, notYet...) || isUnread(err) }, func() (err error) {
		if made, err = call(); err == nil && made == nil {
			return errIncomplete("creating the image "+name, "ID")
		}
		if err != nil && ctx.Err() == nil {
			if i, looking := a.Named(ctx, name); looking == nil && i.ID != "" && ours(i) {
				made, err = &i.ID, nil
			}
		}
		return err
	})
	if err != nil {
		return Image{}, err
	}
	return a.AwaitImage(ctx, *made)
}

// isUnread says that an answer of AWS was cut off. AWS may have carried out the call.
func isUnread(err error) bool {
	var undecoded *smithy.DeserializationError
	var cut *xml.SyntaxError
	return errors.As(err, &undecoded) || errors.As(err, &cut)
}

// IsUnchanged says that AWS has refused a call, so the call has changed nothing. After
// errors inside AWS that is not known.
func IsUnchanged(err error) bool {
	var denied *DeniedError
	var api *APIError
	return errors.As(err, &denied) || errors.As(err, &api) && !strings.HasPrefix(api.Code, "Internal") && !strings.HasSuffix(api.Code, "Unavailable")
}

// hasCode says that AWS returned an error with one of the codes.
func hasCode(err error, codes ...string) bool {
	var api *APIError
	return errors.As(err, &api) && slices.Contains(codes, api.Code)
}
