/** Lets actions take turns: each begins when the one before has ended, however that was. */
export function createTurns(): <T>(act: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  return async (act) => {
    const turn = last.then(act);
    last = turn.catch(() => {});
    return await turn;
  };
}
