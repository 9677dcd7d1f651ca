package awsapi

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
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
func (a *AWS) Settle(ctx context.Context) error { return sleep(ctx, a.settle) }

// pager is a list of the SDK, page by page.
type pager[Page, Option any] interface {
	HasMorePages() bool
	NextPage(context.Context, ...func(Option)) (Page, error)
}

// each yields the items of all pages. An error ends the list.
func each[Item, Page, Option any](ctx context.Context, doing string, pages pager[Page, Option],
	options ...func(Option)) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx, options...)
			if err != nil {
				var none Item
				yield(none, explain(doing, err))
				return
			}
			for _, item := range itemsOf[Item](page) {
				if !yield(item, nil) {
					return
				}
			}
		}
	}
}

// itemsOf is the list of a page of the SDK: the one field with such items.
func itemsOf[Item any](page any) []Item {
	of := reflect.ValueOf(page).Elem()
	for i := range of.NumField() {
		if field := of.Field(i); field.Type() == reflect.TypeFor[[]Item]() {
			return field.Interface().([]Item)
		}
	}
	panic(fmt.Sprintf("%s has no list of %s", of.Type(), reflect.TypeFor[Item]()))
}

// look calls a function for all items of a list.
func look[Item, Page, Option any](ctx context.Context, doing string, pages pager[Page, Option], use func(Item)) error {
	for item, err := range each[Item](ctx, doing, pages) {
		if err != nil {
			return err
		}
		use(item)
	}
	return nil
}

// collect converts all items of a list.
func collect[In, Out any](items iter.Seq2[In, error], convert func(In) Out) ([]Out, error) {
	var list []Out
	for item, err := range items {
		if err != nil {
			return nil, err
		}
		list = append(list, convert(item))
	}
	return list, nil
}

func sleep(ctx context.Context, pause time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(pause):
		return nil
	}
}

// until looks at a change until it is done, for up to Patience. The error late is for
// one that takes longer.
func (a *AWS) until(ctx context.Context, late error, look func() (done bool, err error)) error {
	return a.repeated(ctx, patienceMost*a.settle, func(err error) bool { return err == late }, func() error {
		if done, err := look(); err != nil || done {
			return err
		}
		return late
	})
}

// await looks at something new until it is in the state wanted, and as long as it is pending.
func (a *AWS) await(ctx context.Context, what, wanted string, look func() (state, why string, err error)) error {
	for {
		state, why, err := look()
		switch {
		case err != nil || state == wanted:
			return err
		case state != "pending":
			return fmt.Errorf("waiting for the %s: its state is %s: %s", what, state, why)
		}
		if err := a.Settle(ctx); err != nil {
			return err
		}
	}
}

// AwaitGone waits until EC2 no longer shows a deregistered image.
func (a *AWS) AwaitGone(ctx context.Context, id string) error {
	still := errors.New("deregistering the image " + id + ": EC2 still shows the image")
	return a.until(ctx, still, func() (bool, error) {
		i, err := a.Present(ctx, id)
		return i.ID == "", err
	})
}

// notYet are the codes of EC2 for a new image that waits for what this run has changed:
// the name of an image that was deregistered, the snapshot, or the image to copy.
var notYet = []string{"InvalidAMIName.Duplicate", "InvalidSnapshot.NotFound", "IncorrectState", "InvalidAMIID.NotFound",
	"InvalidAMIID.Unavailable"}

// create makes an image with a name, and waits until it is available. A call whose
// answer was lost has made the image already: ours says whether the image of that name
// is the one. A name may be taken for Patience, and the image of a lost answer then unseen
// for Patience.
func (a *AWS) create(ctx context.Context, name string, ours func(Image) bool,
	call func(context.Context) (id *string, err error)) (Image, error) {
	var made *string
	err := a.repeated(ctx, 2*patienceMost*a.settle, func(err error) bool {
		return hasCode(err, notYet...) || isUnread(err)
	}, func() (err error) {
		ctx, done := unbroken(ctx)
		defer done()
		if made, err = call(ctx); err == nil && made == nil {
			return errIncomplete("creating the image "+name, "ID")
		}
		if err != nil {
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

// unbroken is a context for a call that makes something. After Ctrl-C, the call still has
// answerMost for its answer: without the ID, nobody can remove what was made.
func unbroken(ctx context.Context) (going context.Context, done func()) {
	if ctx.Err() != nil {
		return ctx, func() {}
	}
	going, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(answerMost, cancel) })
	return going, func() { stop(); cancel() }
}

// answerMost is how long a person may wait for AWS after Ctrl-C.
const answerMost = 30 * time.Second

// isUnread says that an answer of AWS was cut off. AWS may have carried out the call.
func isUnread(err error) bool {
	return errors.As(err, new(*smithy.DeserializationError)) || errors.As(err, new(*xml.SyntaxError))
}

// IsUnchanged says that AWS has refused a call, so the call has changed nothing. After
// errors inside AWS that is not known.
func IsUnchanged(err error) bool {
	api, answered := errors.AsType[*APIError](err)
	return errors.As(err, new(*DeniedError)) ||
		answered && !strings.HasPrefix(api.Code, "Internal") && !strings.HasSuffix(api.Code, "Unavailable")
}

func hasCode(err error, codes ...string) bool {
	var api *APIError
	return errors.As(err, &api) && slices.Contains(codes, api.Code)
}

// unansweredError is an error of the SDK that is not an answer of AWS, without the SDK's
// own words. AWS may have carried out the call.
type unansweredError struct {
	said string
	err  error
}

func (e *unansweredError) Error() string { return e.said }
func (e *unansweredError) Unwrap() error { return e.err }

// unansweredOf shortens an error of the SDK.
func unansweredOf(err error) error {
	said, attempts, reason := "", 0, err
	for {
		var operation *smithy.OperationError
		var broken *xml.SyntaxError
		inner := errors.Unwrap(reason)
		switch e := reason.(type) {
		case *smithy.OperationError, *awshttp.ResponseError, *smithyhttp.ResponseError, *smithy.CanceledError,
			*aws.RequestCanceledError, *url.Error:
		case *retry.MaxAttemptsError:
			attempts = e.Attempt
		case *smithyhttp.RequestSendError:
			said = "no answer"
		case *smithy.DeserializationError:
			said = "the answer cannot be read"
		default:
			inner = nil
			if errors.As(reason, &operation) { // deeper, such as that of a provider of credentials
				inner = operation
			} else if errors.As(reason, &broken) && reason != error(broken) { // a truncated error
				said, inner = "the answer cannot be read", broken
			}
		}
		if inner == nil {
			break
		}
		reason = inner
	}
	if said != "" && attempts > 1 {
		said += fmt.Sprintf(" after %d attempts", attempts)
	}
	return &unansweredError{strings.TrimPrefix(said+": ", ": ") + printable(reason.Error()), err}
}

// requestOf is the ID of the request that an error of the SDK is about, or empty.
func requestOf(err error) string {
	var answer *awshttp.ResponseError
	if !errors.As(err, &answer) {
		return ""
	}
	return printable(answer.ServiceRequestID())
}

// RequestID returns the ID of the request, or nothing.
func (e *APIError) RequestID() string { return e.Request }

// RequestID returns the ID of the request, or nothing.
func (e *DeniedError) RequestID() string { return e.Request }

// EndedError says that an instance has ended, and EC2 no longer has its settings.
type EndedError struct {
	Doing string
	// State is terminated or shutting-down. Reason may be empty.
	State, Reason string
}

func (e *EndedError) Error() string {
	text := fmt.Sprintf("%s: the instance is %s, and EC2 no longer has its settings", e.Doing, e.State)
	if e.Reason != "" {
		text += " (" + e.Reason + ")"
	}
	return text
}

// ended returns an error for an instance that has lost its network and role.
func ended(doing string, in types.Instance) error {
	state, reason := stateOf(in)
	if !slices.Contains([]string{string(types.InstanceStateNameShuttingDown),
		string(types.InstanceStateNameTerminated)}, state) {
		return nil
	}
	return &EndedError{doing, state, reason}
}

// stateOf is the state of an instance and the reason for the state, such as
// Client.InternalError: Client error on launch.
func stateOf(in types.Instance) (state, reason string) {
	if in.State != nil {
		state = string(in.State.Name)
	}
	if r := in.StateReason; r != nil {
		code, message := aws.ToString(r.Code), aws.ToString(r.Message)
		reason = message
		if !strings.HasPrefix(message, code) {
			reason = strings.TrimSuffix(code+": "+message, ": ")
		}
	}
	return state, reason
}
