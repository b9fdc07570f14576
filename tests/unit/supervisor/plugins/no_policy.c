/* Purpose: a shared object that is no policy. */
int nothing_of_a_policy(void);
int nothing_of_a_policy(void) {
  return 0;
}
